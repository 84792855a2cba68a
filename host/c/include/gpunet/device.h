/* The C ABI of gpunet's device library: what a kernel calls, in any language that can call C.
 *
 * Every function takes the net as two words, the kind of the group that calls, then numbers and addresses,
 * and returns 64 bits: a count or a handle, or a negative error number. All threads of the group call it
 * with the same arguments, and each gets the same result. gpunet.cuh has the same as C++ types.
 *
 * Compiles as CUDA C++, C++17 and C11. For CUDA the functions are defined in the device library, which is
 * linked by the driver, nvlink or nvJitLink; for the emulated GPU libgpunet exports them. Nothing here is
 * ever removed or changed; what is added raises the minor version.
 */
#ifndef GPUNET_DEVICE_H
#define GPUNET_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* Version of this ABI. */
#define GPUNET_C_ABI_MAJOR 1
#define GPUNET_C_ABI_MINOR 0

#if defined(__CUDACC__)
#define GPUNET_DEVICE_FUNCTION __device__
#else
#define GPUNET_DEVICE_FUNCTION
#endif

#if defined(__cplusplus)
#define GPUNET_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define GPUNET_ALIGNED(bytes) alignas(bytes)
extern "C" {
#else
#define GPUNET_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define GPUNET_ALIGNED(bytes) _Alignas(bytes)
#endif
/* NVRTC up to CUDA 13.0 has no offsetof. */
#if defined(__CUDACC_RTC__)
#define GPUNET_ASSERT_OFFSET(type, member, offset) GPUNET_STATIC_ASSERT(sizeof(type) > offset, #member)
#else
#define GPUNET_ASSERT_OFFSET(type, member, offset) GPUNET_STATIC_ASSERT(offsetof(type, member) == offset, #member)
#endif

/* A net, as a kernel gets it: its first argument, by value. Made by the host alone. */
typedef struct gpunet_net {
    uint64_t records;
    uint64_t shape;
} gpunet_net;

/* Bytes of a UNIX path, at most. */
#define GPUNET_MAX_PATH 107

/* An IPv4 or IPv6 address with a port, or a UNIX path. */
typedef struct gpunet_address {
    /* GPUNET_AF_INET and its siblings; 0: no address. */
    GPUNET_ALIGNED(8) uint16_t family;
    /* The port, in the machine's own byte order, or the length of the path. */
    uint16_t port_or_length;
    /* The 4 or 16 bytes of the IP address as they stand on the wire, or the path. Behind those of IPv6 the
     * flow label and the scope, 4 bytes each, the lowest first. */
    uint8_t bytes[108];
} gpunet_address;

/* A socket for gpunet_poll. */
typedef struct gpunet_pollfd {
    uint64_t socket;
    /* What to look for. */
    uint16_t events;
    /* What was found. */
    uint16_t revents;
    uint32_t reserved;
} gpunet_pollfd;

/* Something happened on a socket that a poller watches. */
typedef struct gpunet_event {
    /* What the socket was given when it was added. */
    uint64_t token;
    /* GPUNET_POLLIN and its siblings; never 0. */
    uint64_t events;
} gpunet_event;

/* A kernel as the emulated GPU runs it: what a shared object exports under the name gpunet_kernel_NAME. */
typedef struct gpunet_kernel {
    /* Bytes of this record. */
    uint64_t size;
    /* Its name. */
    const char *name;
    /* What one thread runs; the addresses of the kernel's arguments. It may unwind. */
    void (*entry)(void *const *parameters);
    /* How many arguments there are, the net included. */
    uint64_t count;
    /* The bytes of each. */
    const uint64_t *sizes;
} gpunet_kernel;

GPUNET_STATIC_ASSERT(sizeof(gpunet_net) == 16, "a net is two words");
GPUNET_ASSERT_OFFSET(gpunet_net, shape, 8);
GPUNET_STATIC_ASSERT(sizeof(gpunet_address) == 112, "an address is 14 words");
GPUNET_ASSERT_OFFSET(gpunet_address, port_or_length, 2);
GPUNET_ASSERT_OFFSET(gpunet_address, bytes, 4);
GPUNET_STATIC_ASSERT(sizeof(gpunet_pollfd) == 16, "layout of an entry to poll");
GPUNET_ASSERT_OFFSET(gpunet_pollfd, events, 8);
GPUNET_ASSERT_OFFSET(gpunet_pollfd, revents, 10);
GPUNET_STATIC_ASSERT(sizeof(gpunet_event) == 16, "layout of an event");
GPUNET_ASSERT_OFFSET(gpunet_event, events, 8);
GPUNET_STATIC_ASSERT(sizeof(gpunet_kernel) == 40, "layout of a kernel's record");
#if defined(__cplusplus)
static_assert(alignof(gpunet_address) == 8, "an address is aligned as a word");
#else
_Static_assert(_Alignof(gpunet_address) == 8, "an address is aligned as a word");
#endif

/* Who makes a call together. */
enum {
    GPUNET_GROUP_THREAD = 0,
    GPUNET_GROUP_WARP = 1,
    GPUNET_GROUP_BLOCK = 2
};

/* Families of addresses: the domain of a socket. */
enum {
    GPUNET_AF_UNIX = 1,
    GPUNET_AF_INET = 2,
    GPUNET_AF_INET6 = 10
};

/* Types of sockets. */
enum {
    GPUNET_SOCK_STREAM = 1,
    /* With GPUNET_SOCK_STREAM: non-blocking from the start. */
    GPUNET_SOCK_NONBLOCK = 2048
};

/* Flags of sends and receives. */
enum {
    /* Receive: leave the bytes in the ring. */
    GPUNET_MSG_PEEK = 0x2,
    /* Do not wait, whatever the socket's options say. */
    GPUNET_MSG_DONTWAIT = 0x40,
    /* Receive: wait until the buffer is full, or the stream ends. */
    GPUNET_MSG_WAITALL = 0x100
};

/* How to shut down. */
enum {
    GPUNET_SHUT_RD = 0,
    GPUNET_SHUT_WR = 1,
    GPUNET_SHUT_RDWR = 2
};

/* What a socket is ready for. ERR, HUP and NVAL come without being asked for. */
enum {
    GPUNET_POLLIN = 0x1,
    GPUNET_POLLOUT = 0x4,
    GPUNET_POLLERR = 0x8,
    GPUNET_POLLHUP = 0x10,
    GPUNET_POLLNVAL = 0x20,
    GPUNET_POLLRDHUP = 0x2000
};

/* Which address gpunet_name gives. */
enum {
    GPUNET_NAME_OWN = 0,
    GPUNET_NAME_PEER = 1
};

/* Which ring a slice is of: received bytes, or space to send from. */
enum {
    GPUNET_DIRECTION_RECEIVE = 0,
    GPUNET_DIRECTION_SEND = 1
};

/* Options of a socket; a value is one number. */
enum {
    /* Calls that would wait return EAGAIN instead (0 or 1). */
    GPUNET_OPTION_NON_BLOCKING = 1,
    /* How long accept and receive may wait, in nanoseconds; 0: no limit. */
    GPUNET_OPTION_RECEIVE_TIMEOUT = 2,
    /* How long connect and send may wait, in nanoseconds; 0: no limit. */
    GPUNET_OPTION_SEND_TIMEOUT = 3,
    /* Capacity of the receive ring, before connect or listen. */
    GPUNET_OPTION_RECEIVE_RING = 4,
    /* Capacity of the send ring, before connect or listen. */
    GPUNET_OPTION_SEND_RING = 5,
    /* TCP_NODELAY (0 or 1; 1 unless set otherwise). */
    GPUNET_OPTION_NO_DELAY = 6,
    /* SO_KEEPALIVE (0 or 1). */
    GPUNET_OPTION_KEEP_ALIVE = 7,
    /* TCP_KEEPIDLE, seconds. */
    GPUNET_OPTION_KEEP_ALIVE_IDLE = 8,
    /* TCP_KEEPINTVL, seconds. */
    GPUNET_OPTION_KEEP_ALIVE_INTERVAL = 9,
    /* TCP_KEEPCNT. */
    GPUNET_OPTION_KEEP_ALIVE_COUNT = 10,
    /* TCP_USER_TIMEOUT, milliseconds. */
    GPUNET_OPTION_USER_TIMEOUT = 11,
    /* SO_REUSEADDR (0 or 1; 1 for TCP unless set otherwise). */
    GPUNET_OPTION_REUSE_ADDRESS = 12,
    /* SO_REUSEPORT (0 or 1). */
    GPUNET_OPTION_REUSE_PORT = 13,
    /* IPV6_V6ONLY (0 or 1). */
    GPUNET_OPTION_V6_ONLY = 14,
    /* TCP_QUICKACK (0 or 1). */
    GPUNET_OPTION_QUICK_ACK = 15,
    /* The socket outlives the kernel that made it, for the host to take (0 or 1). */
    GPUNET_OPTION_DETACHED = 16,
    /* The last asynchronous error, as a positive number; reading only. */
    GPUNET_OPTION_ERROR = 17,
    /* SO_SNDBUF of the system's own socket, bytes. */
    GPUNET_OPTION_SYSTEM_SEND_BUFFER = 18,
    /* SO_RCVBUF of the system's own socket, bytes. */
    GPUNET_OPTION_SYSTEM_RECEIVE_BUFFER = 19,
    /* How a socket with IP addresses travels: 0 as it comes best, 1 TCP, 2 RDMA. */
    GPUNET_OPTION_TRANSPORT = 20,
    /* Where the rings of an RDMA stream may lie: the sum of 1 (GPU memory as a dma-buf), 2 (GPU memory by
     * a peer-memory driver) and 4 (host memory). */
    GPUNET_OPTION_PLACEMENT = 21
};

/* Error numbers, those of Linux. Calls return their negatives. */
enum {
    GPUNET_EPERM = 1,
    GPUNET_ENOENT = 2,
    GPUNET_EINTR = 4,
    GPUNET_EIO = 5,
    GPUNET_EBADF = 9,
    GPUNET_EAGAIN = 11,
    GPUNET_ENOMEM = 12,
    GPUNET_EACCES = 13,
    GPUNET_EFAULT = 14,
    /* Another group is using this direction of the socket. */
    GPUNET_EBUSY = 16,
    /* The other end's GPU memory cannot be reached from here. */
    GPUNET_EXDEV = 18,
    GPUNET_ENODEV = 19,
    GPUNET_ENOTDIR = 20,
    GPUNET_EINVAL = 22,
    /* The net's socket table is full. */
    GPUNET_ENFILE = 23,
    GPUNET_EMFILE = 24,
    GPUNET_ENOSPC = 28,
    GPUNET_EROFS = 30,
    GPUNET_EPIPE = 32,
    GPUNET_ENAMETOOLONG = 36,
    /* The proxy caught a bad word in this socket's memory. */
    GPUNET_EPROTO = 71,
    GPUNET_EMSGSIZE = 90,
    GPUNET_ENOPROTOOPT = 92,
    GPUNET_EPROTONOSUPPORT = 93,
    GPUNET_EOPNOTSUPP = 95,
    GPUNET_EAFNOSUPPORT = 97,
    GPUNET_EADDRINUSE = 98,
    GPUNET_EADDRNOTAVAIL = 99,
    /* The proxy is gone. */
    GPUNET_ENETDOWN = 100,
    GPUNET_ENETUNREACH = 101,
    GPUNET_ECONNABORTED = 103,
    GPUNET_ECONNRESET = 104,
    /* The net has no ring memory left. */
    GPUNET_ENOBUFS = 105,
    GPUNET_EISCONN = 106,
    GPUNET_ENOTCONN = 107,
    GPUNET_ETIMEDOUT = 110,
    GPUNET_ECONNREFUSED = 111,
    GPUNET_EHOSTUNREACH = 113,
    GPUNET_EALREADY = 114,
    GPUNET_EINPROGRESS = 115,
    /* The kernel was stopped. */
    GPUNET_ECANCELED = 125
};

/* Sends of at most so many bytes are for gpunet_send, ... */
#define GPUNET_PACKET_BYTES 256
/* ... of at most so many for gpunet_send_long, and longer ones for gpunet_send_ring: each does what the
 * others do, and is short for those. */
#define GPUNET_LONGEST_PACKET 4096

/* Bytes of a line that gpunet_print prints, at most. */
#define GPUNET_MAX_TEXT 208

/* What an open slice is: the function's result is a span, the length in the upper 32 bits and the lowest
 * bits of the position where it begins in the lower; the word `ring` is the address of the ring's first
 * byte with the logarithm of its capacity in the 6 lowest bits. So the slice begins at the position modulo
 * the capacity, and what does not fit before the ring's end goes on at its beginning. */
#define GPUNET_RING_LOG_MASK 63

/* Makes a socket; its handle. `protocol` is 0. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_socket(uint64_t net0, uint64_t net1, uint32_t group, int32_t domain,
                                             int32_t type, int32_t protocol);
/* Gives a socket its own address. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_bind(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                           const gpunet_address *address);
/* Makes it a listener with so many connections in the system's queue. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_listen(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                             int32_t backlog);
/* The next connection of a listener; its handle. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_accept(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket);
/* Connects; EINPROGRESS on a non-blocking socket, which is writable once it is connected. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_connect(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                              const gpunet_address *address);
/* Ends one direction or both; what was sent before still arrives. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_shutdown(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                               int32_t how);
/* Closes; what is unsent is sent. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_close(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket);
/* Stores an address of the socket at every thread's `to`. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_name(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                           uint32_t which, gpunet_address *to);
/* Sends a message of at most GPUNET_PACKET_BYTES; how many bytes. Call again for the rest. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_send(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                           const uint8_t *from, uint64_t length, uint32_t flags);
/* Sends a piece of a longer message; how many bytes. Call again for the rest. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_send_long(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                                const uint8_t *from, uint64_t length, uint32_t flags);
/* Sends a piece of a message that is longer than GPUNET_LONGEST_PACKET; how many bytes. Call again for the
 * rest. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_send_ring(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                                const uint8_t *from, uint64_t length, uint32_t flags);
/* Receives at least one byte and at most `length`; 0 once the peer has closed. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_receive(uint64_t net0, uint64_t net1, uint32_t group, uint64_t socket,
                                              uint8_t *to, uint64_t length, uint32_t flags);
/* Copies bytes, each thread its share: behind the group's next barrier all of them are there. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_copy(uint64_t net0, uint64_t net1, uint32_t group, const uint8_t *from,
                                           uint8_t *to, uint64_t length);
/* Opens a slice of a ring of at least `least` bytes: its span, 0 at the end of the stream. Where the ring
 * lies is stored at every thread's `ring`. No other group has that direction until the slice is closed. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_open_slice(uint64_t net0, uint64_t net1, uint32_t group,
                                                 uint64_t socket, uint32_t direction, uint64_t least,
                                                 uint64_t *ring);
/* Publishes that the first `used` bytes of a slice were read or filled, and closes it. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_close_slice(uint64_t net0, uint64_t net1, uint32_t group,
                                                  uint64_t socket, uint32_t direction, uint64_t used);
/* Sets an option. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_set_option(uint64_t net0, uint64_t net1, uint32_t group,
                                                 uint64_t socket, uint32_t option, uint64_t value);
/* Reads an option. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_get_option(uint64_t net0, uint64_t net1, uint32_t group,
                                                 uint64_t socket, uint32_t option);
/* Waits until one of `count` sockets is ready, in `timeout_ms` (negative: no limit, 0: a look); how many
 * are. The entries lie in memory that the group shares. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_poll(uint64_t net0, uint64_t net1, uint32_t group,
                                           gpunet_pollfd *sockets, uint64_t count, int64_t timeout_ms);
/* Makes a poller; its handle. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_poller(uint64_t net0, uint64_t net1, uint32_t group);
/* Has a poller watch a socket, or with no events no longer. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_watch(uint64_t net0, uint64_t net1, uint32_t group, uint64_t poller,
                                            uint64_t socket, uint64_t events, uint64_t token);
/* Waits for events (0 ns: no limit) and takes up to `capacity` of them into memory that the group shares;
 * how many. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_wait(uint64_t net0, uint64_t net1, uint32_t group, uint64_t poller,
                                           gpunet_event *events, uint64_t capacity, uint64_t timeout_ns);
/* Nanoseconds since 1970, by the host's clock. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_time(uint64_t net0, uint64_t net1, uint32_t group);
/* Prints a line on the host, cut off at GPUNET_MAX_TEXT bytes. */
GPUNET_DEVICE_FUNCTION int64_t gpunet_print(uint64_t net0, uint64_t net1, uint32_t group, const uint8_t *text,
                                            uint64_t length);

/* What an image was built for: major and minor version. Whoever loads the image looks for it by this name.
 * Every translation unit has it, and one is left in a linked image: of `inline` variables nvcc makes weak
 * symbols, of which it drops none, but it takes them with -rdc=true alone. */
#if defined(__CUDACC__)
#if defined(__CUDACC_RDC__) || defined(__clang__)
inline GPUNET_DEVICE_FUNCTION uint32_t gpunet_c_abi[2] = {GPUNET_C_ABI_MAJOR, GPUNET_C_ABI_MINOR};
#else
GPUNET_DEVICE_FUNCTION uint32_t gpunet_c_abi[2] = {GPUNET_C_ABI_MAJOR, GPUNET_C_ABI_MINOR};
#endif
#endif

#if defined(__cplusplus)
}
#endif

#endif
