/* Kernels of the tests of images and leases, as a compiler of another language makes them: without any
   header of gpunet, with what docs/reference/c-abi.md says. */

#include <stddef.h>
#include <stdint.h>

struct net { uint64_t words[2]; };

struct gpunet_kernel {
    uint64_t size;
    const char *name;
    void (*entry)(void *const *parameters);
    uint64_t count;
    const uint64_t *sizes;
};

#ifndef MAJOR
#define MAJOR 1
#endif
#ifndef WITHOUT_MARK
const uint32_t gpunet_c_abi[2] = {MAJOR, 0};
#endif

#define RECORD(name, ...)                                                                          \
    static const uint64_t name##_sizes[] = {__VA_ARGS__};                                          \
    const struct gpunet_kernel gpunet_kernel_##name = {sizeof(struct gpunet_kernel), #name,        \
        name##_entry, sizeof(name##_sizes) / sizeof(uint64_t), name##_sizes}

enum { THREAD = 0, BLOCK = 2 };

int64_t gpunet_accept(uint64_t, uint64_t, uint32_t, uint64_t);
int64_t gpunet_receive(uint64_t, uint64_t, uint32_t, uint64_t, uint8_t *, uint64_t, uint32_t);
int64_t gpunet_send(uint64_t, uint64_t, uint32_t, uint64_t, const uint8_t *, uint64_t, uint32_t);
int64_t gpunet_close(uint64_t, uint64_t, uint32_t, uint64_t);
void gpunet_emulated_site(const char *, uint32_t);
void gpunet_emulated_position(uint32_t *);
void gpunet_emulated_barrier(uint32_t);
void *gpunet_emulated_shared(const void *, uint64_t);
void gpunet_emulated_pause(void);
void gpunet_emulated_trap(const char *);

static uint32_t rank(void) {
    uint32_t place[12];
    gpunet_emulated_position(place);
    return place[0];
}

/* Sends back what a client sends, until it has sent all. Stores what ended it. */
static void echo(struct net net, uint64_t listener, int64_t *result) {
    static const char buffer_key;
    uint64_t a = net.words[0], b = net.words[1];
    uint8_t *buffer = gpunet_emulated_shared(&buffer_key, 256);
    gpunet_emulated_site(__FILE__, __LINE__);
    int64_t socket = gpunet_accept(a, b, BLOCK, listener), got = socket;
    while (socket >= 0 && (got = gpunet_receive(a, b, BLOCK, socket, buffer, 256, 0)) > 0)
        gpunet_send(a, b, BLOCK, socket, buffer, got, 0);
    if (socket >= 0)
        gpunet_close(a, b, BLOCK, socket);
    if (rank() == 0)
        *result = got;
}
static void echo_entry(void *const *p) {
    echo(*(struct net *)p[0], *(uint64_t *)p[1], *(int64_t **)p[2]);
}
RECORD(echo, sizeof(struct net), 8, sizeof(void *));

/* Adds a number of each kind to a word. */
struct numbers { uint8_t byte; double fraction; };
static void add_entry(void *const *p) {
    struct numbers numbers = *(struct numbers *)p[2];
    uint64_t *sum = *(uint64_t **)p[1];
    if (rank() == 0)
        *sum += numbers.byte + (uint64_t)numbers.fraction + *(uint32_t *)p[3];
}
RECORD(add, sizeof(struct net), sizeof(void *), sizeof(struct numbers), 4);

/* Ends with a fault. */
static void fault_entry(void *const *p) {
    gpunet_emulated_site("fault.cu", 7);
    gpunet_emulated_trap("no way");
}
RECORD(fault, sizeof(struct net));

/* Threads that do not agree. */
static void differ_entry(void *const *p) {
    struct net net = *(struct net *)p[0];
    gpunet_emulated_site("differ.cu", 42);
    gpunet_accept(net.words[0], net.words[1], BLOCK, rank());
}
RECORD(differ, sizeof(struct net));

/* Waits until a word is not 0, without asking whether it is to stop. */
static void spin_entry(void *const *p) {
    volatile uint32_t *word = *(uint32_t **)p[1];
    while (!*word)
        gpunet_emulated_pause();
}
RECORD(spin, sizeof(struct net), sizeof(void *));

#ifdef MISSING
void not_anywhere(void);
static void missing_entry(void *const *p) { not_anywhere(); }
RECORD(missing, sizeof(struct net));
#endif

#ifdef WITHOUT_NET
static void without_net_entry(void *const *p) {}
RECORD(without_net, 8);
#endif
