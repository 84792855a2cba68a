// The other end of nvshmem.rs: two PEs on one GPU exchange messages with NVSHMEM's put with signal.
//
// Usage: program DEVICE LONGEST. Each line on standard input is "threads bytes rounds"; the answer is a line with
// the microseconds of one round trip, the mean of the batch, or one that begins with "error". It ends with its
// input. Every wait is bounded: those of kernels by a number of polls, all others by an alarm, and the second PE
// ends with the first.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

// Seconds that the beginning, and each batch, may take.
constexpr unsigned START = 60;
constexpr unsigned BATCH = 20;
// Polls of one signal, some ten seconds.
constexpr unsigned POLLS = 1u << 24;

struct Command {
    int threads;
    unsigned long long bytes;
    unsigned long long rounds;
};

struct Outcome {
    unsigned long long ns;
    unsigned long long bad;
};

[[noreturn]] static void fail(const char* what, const char* why)
{
    printf("error %s: %s\n", what, why);
    fflush(stdout);
    _exit(1);
}

static void check(const char* what, cudaError_t error)
{
    if (error != cudaSuccess) {
        fail(what, cudaGetErrorString(error));
    }
}

static __device__ unsigned long long now()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// What nvshmem_signal_wait_until does, but not for ever. False for all threads once it was too long.
static __device__ bool arrives(uint64_t* signal, uint64_t number)
{
    unsigned polls = POLLS;
    if (threadIdx.x == 0) {
        while (nvshmem_signal_fetch(signal) < number && --polls > 0) {
        }
    }
    return !__syncthreads_or(polls == 0);
}

// PE 0 begins each round trip. The first rounds are not timed: the kernels of both have to be there.
static __global__ void exchange(uint8_t* inbox, uint8_t* message, uint64_t* signal, int pe, Command work,
                                uint64_t base, Outcome* outcome)
{
    const int peer = 1 - pe;
    const unsigned long long warm = work.rounds / 10 + 1;
    for (unsigned long long at = threadIdx.x; at < work.bytes; at += blockDim.x) {
        message[at] = static_cast<uint8_t>(at * 31 + base);
        inbox[at] = 0;
    }
    __syncthreads();
    unsigned long long begin = 0;
    bool good = true;
    for (unsigned long long round = 1; good && round <= warm + work.rounds; ++round) {
        if (round == warm + 1) {
            begin = now();
        }
        if (pe == 0) {
            nvshmemx_putmem_signal_block(inbox, message, work.bytes, signal, base + round, NVSHMEM_SIGNAL_SET, peer);
            good = arrives(signal, base + round);
        } else {
            good = arrives(signal, base + round);
            if (good) {
                nvshmemx_putmem_signal_block(inbox, message, work.bytes, signal, base + round, NVSHMEM_SIGNAL_SET,
                                             peer);
            }
        }
    }
    const unsigned long long took = now() - begin;
    bool wrong = !good;
    for (unsigned long long at = threadIdx.x; good && at < work.bytes; at += blockDim.x) {
        wrong |= *const_cast<volatile uint8_t*>(inbox + at) != static_cast<uint8_t>(at * 31 + base);
    }
    wrong = __syncthreads_or(wrong);
    if (threadIdx.x == 0) {
        outcome->ns = took;
        outcome->bad = good ? (wrong ? 1 : 0) : 2;
    }
}

int main(int count, char** arguments)
{
    if (count != 3) {
        fail("arguments", "DEVICE LONGEST is wanted");
    }
    const int device = atoi(arguments[1]);
    const size_t longest = strtoull(arguments[2], nullptr, 10);
    int commands[2];
    if (pipe(commands) != 0) {
        fail("pipe", "failed");
    }
    // Before CUDA starts, which does not survive a fork.
    const pid_t first = getpid();
    const pid_t child = fork();
    if (child < 0) {
        fail("fork", "failed");
    }
    const int pe = child == 0 ? 1 : 0;
    if (pe == 1) {
        close(commands[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != first) {
            _exit(1);
        }
    } else {
        close(commands[0]);
        signal(SIGPIPE, SIG_IGN);
    }
    alarm(START);

    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (pe == 0) {
        if (nvshmemx_get_uniqueid(&id) != 0 || write(commands[1], &id, sizeof id) != (ssize_t)sizeof id) {
            fail("nvshmemx_get_uniqueid", "failed");
        }
    } else if (read(commands[0], &id, sizeof id) != (ssize_t)sizeof id) {
        _exit(1);
    }
    check("cudaSetDevice", cudaSetDevice(device));
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_set_attr_uniqueid_args(pe, 2, &id, &attributes);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0) {
        fail("nvshmemx_init_attr", "failed");
    }
    auto* inbox = static_cast<uint8_t*>(nvshmem_malloc(longest));
    auto* message = static_cast<uint8_t*>(nvshmem_malloc(longest));
    auto* signal_word = static_cast<uint64_t*>(nvshmem_calloc(1, sizeof(uint64_t)));
    if (inbox == nullptr || message == nullptr || signal_word == nullptr) {
        fail("nvshmem_malloc", "no memory");
    }
    Outcome* outcome = nullptr;
    check("cudaMallocHost", cudaMallocHost(reinterpret_cast<void**>(&outcome), sizeof *outcome));
    nvshmem_barrier_all();
    if (pe == 0) {
        printf("ready\n");
        fflush(stdout);
    }

    uint64_t base = 0;
    for (;;) {
        Command work = {};
        // Nothing to bound: input ends with the program that started this one.
        alarm(0);
        if (pe == 0) {
            char line[256];
            if (fgets(line, sizeof line, stdin) == nullptr) {
                break;
            }
            if (sscanf(line, "%d %llu %llu", &work.threads, &work.bytes, &work.rounds) != 3 || work.bytes > longest) {
                fail("input", "threads bytes rounds are wanted");
            }
            if (write(commands[1], &work, sizeof work) != (ssize_t)sizeof work) {
                fail("the second PE", "has ended");
            }
        } else if (read(commands[0], &work, sizeof work) != (ssize_t)sizeof work) {
            break;
        }
        alarm(BATCH);
        // What the last batch has put is there on both sides, and no one clears an inbox that is in use.
        nvshmem_barrier_all();
        exchange<<<1, work.threads>>>(inbox, message, signal_word, pe, work, base, outcome);
        check("launch", cudaGetLastError());
        check("batch", cudaDeviceSynchronize());
        base += work.rounds + work.rounds / 10 + 1;
        if (outcome->bad != 0) {
            fail("batch", outcome->bad == 1 ? "wrong bytes came" : "nothing came in time");
        }
        if (pe == 0) {
            printf("%.4f\n", outcome->ns / 1000.0 / work.rounds);
            fflush(stdout);
        }
    }
    alarm(BATCH);
    if (pe == 0) {
        close(commands[1]);
    }
    nvshmem_barrier_all();
    nvshmem_finalize();
    if (pe == 0) {
        waitpid(child, nullptr, 0);
    }
    return 0;
}
