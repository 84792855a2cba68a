/* A TCP client that polls, without any of gpunet's code: echoes messages and measures round trips.
 *
 * poll_client HOST PORT SIZE ROUNDS [LIMIT_MS]
 *
 * Sends messages of SIZE bytes to an echo server, one after the other, and checks each byte of the
 * answer. Begins no further round trip after LIMIT_MS. Prints one line, five numbers: median, 25th,
 * 75th and 99th percentile in nanoseconds, and the round trips measured (a tenth more come first, to
 * warm up). On any failure: one line on standard error, status 1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How long connecting, or one answer, may take. */
#define ANSWER_NS 10000000000ull
/* Calls that were not ready between two looks at the clock. */
#define POLLS 64

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "poll_client: %s: %s\n", what, why);
    exit(1);
}

static unsigned long number(const char *name, const char *text, unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || value == 0 || value > most)
        fail(name, "not a number in range");
    return value;
}

static int connect_to(const char *host, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_port = htons((uint16_t)number("PORT", port, 65535));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail(host, "not an IPv4 address");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket", strerror(errno));
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        fail("TCP_NODELAY", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (errno != EINPROGRESS)
        fail("connect", strerror(errno));
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, (int)(ANSWER_NS / 1000000)) != 1)
        fail("connect", "no answer in time");
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) || error)
        fail("connect", strerror(error ? error : errno));
    return fd;
}

/* Whether a call moved bytes; ends the program when it failed. */
static int moved(ssize_t bytes, const char *call)
{
    if (bytes > 0)
        return 1;
    if (bytes == 0)
        fail(call, "the server closed the connection");
    if (errno != EAGAIN && errno != EINTR)
        fail(call, strerror(errno));
    return 0;
}

/* Sends a message and reads it back, both polling; the nanoseconds that took. */
static uint64_t round_trip(int fd, const unsigned char *message, unsigned char *answer, size_t size)
{
    size_t sent = 0, got = 0;
    unsigned polls = 0;
    uint64_t start = now();
    while (got < size) {
        ssize_t bytes;
        if (sent < size) {
            bytes = send(fd, message + sent, size - sent, MSG_NOSIGNAL);
            if (moved(bytes, "send"))
                sent += (size_t)bytes;
        }
        bytes = recv(fd, answer + got, size - got, 0);
        if (moved(bytes, "recv"))
            got += (size_t)bytes;
        else if (++polls % POLLS == 0 && now() - start > ANSWER_NS)
            fail("recv", "no answer in time");
    }
    return now() - start;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments)
{
    if (count < 5 || count > 6)
        fail("usage", "poll_client HOST PORT SIZE ROUNDS [LIMIT_MS]");
    size_t size = number("SIZE", arguments[3], 1ul << 30);
    size_t rounds = number("ROUNDS", arguments[4], 1ul << 26);
    uint64_t limit = count == 6 ? number("LIMIT_MS", arguments[5], 3600000) : 60000;
    unsigned char *message = malloc(size), *answer = malloc(size);
    uint64_t *samples = calloc(rounds, sizeof *samples);
    if (!message || !answer || !samples)
        fail("malloc", "no memory");
    int fd = connect_to(arguments[1], arguments[2]);
    uint64_t end = now() + limit * 1000000ull;
    size_t warm_up = rounds / 10, measured = 0;
    for (size_t round = 0; round < warm_up + rounds; round++) {
        /* The first one is always measured, however long the others took. */
        if (round >= warm_up && measured > 0 && now() > end)
            break;
        if (round < warm_up && now() > end)
            continue;
        for (size_t at = 0; at < size; at++)
            message[at] = (unsigned char)(round * 7 + at + at / 251);
        memset(answer, 0, size);
        uint64_t took = round_trip(fd, message, answer, size);
        if (memcmp(message, answer, size))
            fail("recv", "the answer differs from the message");
        if (round >= warm_up)
            samples[measured++] = took;
    }
    close(fd);
    qsort(samples, measured, sizeof *samples, compare);
    unsigned long shares[] = {50, 25, 75, 99};
    for (size_t at = 0; at < 4; at++)
        printf("%llu ", (unsigned long long)samples[measured * shares[at] / 100]);
    printf("%zu\n", measured);
    return 0;
}
