// Plain sockets of the system for the test programs, with deadlines.
#ifndef TCP_HPP
#define TCP_HPP

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

/// Ends the program with where it failed.
#define EXPECT(condition)                                                                                     \
    do {                                                                                                      \
        if (!(condition)) {                                                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
            std::exit(1);                                                                                     \
        }                                                                                                     \
    } while (false)

/// A connected socket, or one that listens.
class tcp {
  public:
    explicit tcp(int descriptor) : descriptor_(descriptor)
    {
        EXPECT(descriptor >= 0);
        const timeval limit = {30, 0};
        EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
        EXPECT(setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    }

    tcp(tcp &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1))
    {
    }

    ~tcp()
    {
        if (descriptor_ >= 0) {
            close(descriptor_);
        }
    }

    static tcp connect(std::uint16_t port)
    {
        tcp made(::socket(AF_INET, SOCK_STREAM, 0));
        const sockaddr_in address = loopback(port);
        EXPECT(::connect(made.descriptor_, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
        return made;
    }

    static tcp listen()
    {
        tcp made(::socket(AF_INET, SOCK_STREAM, 0));
        const sockaddr_in address = loopback(0);
        EXPECT(bind(made.descriptor_, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
        EXPECT(::listen(made.descriptor_, 16) == 0);
        return made;
    }

    std::uint16_t port() const
    {
        sockaddr_in address{};
        socklen_t length = sizeof address;
        EXPECT(getsockname(descriptor_, reinterpret_cast<sockaddr *>(&address), &length) == 0);
        return ntohs(address.sin_port);
    }

    tcp accept() const
    {
        return tcp(::accept(descriptor_, nullptr, nullptr));
    }

    void send(const std::string &bytes) const
    {
        std::size_t sent = 0;
        while (sent < bytes.size()) {
            const ssize_t now = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            EXPECT(now > 0);
            sent += static_cast<std::size_t>(now);
        }
    }

    /// So many bytes, or fewer where the stream ends.
    std::string receive(std::size_t bytes) const
    {
        std::string got(bytes, '\0');
        std::size_t at = 0;
        while (at < bytes) {
            const ssize_t now = recv(descriptor_, got.data() + at, bytes - at, 0);
            EXPECT(now >= 0);
            if (now == 0) {
                break;
            }
            at += static_cast<std::size_t>(now);
        }
        got.resize(at);
        return got;
    }

    /// Sends, and expects the same back, in pieces that fit the system's buffers.
    void echo(const std::string &bytes) const
    {
        for (std::size_t at = 0; at < bytes.size(); at += 10000) {
            const std::string piece = bytes.substr(at, 10000);
            send(piece);
            EXPECT(receive(piece.size()) == piece);
        }
    }

    /// Ends it with a reset.
    void reset()
    {
        const linger at_once = {1, 0};
        EXPECT(setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
        close(std::exchange(descriptor_, -1));
    }

    /// Gives the descriptor away.
    int release()
    {
        return std::exchange(descriptor_, -1);
    }

  private:
    static sockaddr_in loopback(std::uint16_t port)
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }

    int descriptor_;
};

/// Bytes that differ.
inline std::string pattern(std::size_t length, unsigned seed = 0)
{
    std::string bytes(length, '\0');
    for (std::size_t at = 0; at < length; ++at) {
        bytes[at] = static_cast<char>((at * 7 + seed) & 255);
    }
    return bytes;
}

#endif
