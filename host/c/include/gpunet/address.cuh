// Addresses of sockets, by value: a kernel may take one as an argument.
#ifndef GPUNET_ADDRESS_CUH
#define GPUNET_ADDRESS_CUH

#include "base.cuh"

namespace gpunet {

/// An IPv4 or IPv6 address with a port, or a UNIX path.
class address : public ::gpunet_address {
  public:
    /// No address.
    GPUNET_CONSTEXPR address() : ::gpunet_address{}
    {
    }

    /// One of the C ABI.
    GPUNET_CONSTEXPR address(const ::gpunet_address &other) : ::gpunet_address(other)
    {
    }

    /// An IPv4 address, as in `v4(127, 0, 0, 1, 7000)`.
    GPUNET_CONSTEXPR static address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                                       std::uint16_t port)
    {
        address made(GPUNET_AF_INET, port);
        made.bytes[0] = a;
        made.bytes[1] = b;
        made.bytes[2] = c;
        made.bytes[3] = d;
        return made;
    }

    /// An IPv6 address, with flow label and scope.
    GPUNET_CONSTEXPR static address v6(const std::uint8_t (&ip)[16], std::uint16_t port, std::uint32_t flow = 0,
                                       std::uint32_t scope = 0)
    {
        address made(GPUNET_AF_INET6, port);
        // Counted: sixteen bytes.
        for (int at = 0; at < 16; ++at) {
            made.bytes[at] = ip[at];
        }
        // Counted: four bytes.
        for (int at = 0; at < 4; ++at) {
            made.bytes[16 + at] = static_cast<std::uint8_t>(flow >> (8 * at));
            made.bytes[20 + at] = static_cast<std::uint8_t>(scope >> (8 * at));
        }
        return made;
    }

    /// A UNIX path, up to its closing zero; no address where it is longer than GPUNET_MAX_PATH. (`unix` is
    /// a macro of some compilers.)
    GPUNET_CONSTEXPR static address unix_path(const char *path)
    {
        address made(GPUNET_AF_UNIX, 0);
        // Counted: the path.
        for (std::uint16_t at = 0; path[at] != 0; ++at) {
            if (at == GPUNET_MAX_PATH) {
                return {};
            }
            made.bytes[at] = static_cast<std::uint8_t>(path[at]);
            made.port_or_length = static_cast<std::uint16_t>(at + 1);
        }
        return made;
    }

    /// Whether it names something.
    GPUNET_CONSTEXPR explicit operator bool() const
    {
        return family == GPUNET_AF_UNIX || is_ip();
    }

    /// The port of an IP address, else 0.
    GPUNET_CONSTEXPR std::uint16_t port() const
    {
        return is_ip() ? port_or_length : static_cast<std::uint16_t>(0);
    }

    /// The same IP address with another port.
    GPUNET_CONSTEXPR address with_port(std::uint16_t port) const
    {
        address other(*this);
        if (is_ip()) {
            other.port_or_length = port;
        }
        return other;
    }

  private:
    GPUNET_CONSTEXPR address(int family_number, std::uint16_t number) : ::gpunet_address{}
    {
        family = static_cast<std::uint16_t>(family_number);
        port_or_length = number;
    }

    GPUNET_CONSTEXPR bool is_ip() const
    {
        return family == GPUNET_AF_INET || family == GPUNET_AF_INET6;
    }
};

static_assert(sizeof(address) == sizeof(::gpunet_address), "an address is nothing but its bytes");
static_assert(std::is_trivially_copyable_v<address>, "kernels take addresses by value");

} // namespace gpunet

#endif
