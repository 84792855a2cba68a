//! Socket addresses as they cross between GPU and CPU.

/// Bytes of a UNIX path, at most (the system's own limit, without the closing zero).
pub const MAX_PATH: usize = 107;

/// Words an address takes in a message.
pub const ADDRESS_WORDS: usize = 14;

/// Which family of addresses a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Domain {
    /// UNIX-domain, by path.
    Unix = 1,
    /// IPv4.
    V4 = 2,
    /// IPv6.
    V6 = 10,
}

impl Domain {
    /// The domain with that number (Linux's AF_*).
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Unix),
            2 => Some(Self::V4),
            10 => Some(Self::V6),
            _ => None,
        }
    }
}

/// An IPv4 or IPv6 address with a port, or a UNIX path; by value, no pointer inside.
///
/// IPv6 keeps flow label and scope behind the 16 address bytes. A kernel may take one as an
/// argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(8))]
pub struct SocketAddr {
    family: u16,
    /// Port (IP) or length of the path (UNIX).
    port_or_length: u16,
    bytes: [u8; 108],
}

const _: () = assert!(size_of::<SocketAddr>() == ADDRESS_WORDS * 8);

impl SocketAddr {
    /// No address: family 0.
    pub const NONE: Self = Self { family: 0, port_or_length: 0, bytes: [0; 108] };

    /// An IPv4 address and port.
    pub const fn v4(ip: [u8; 4], port: u16) -> Self {
        let mut this = Self { family: Domain::V4 as u16, port_or_length: port, ..Self::NONE };
        let mut at = 0;
        // Counted: four bytes.
        while at < 4 {
            this.bytes[at] = ip[at];
            at += 1;
        }
        this
    }

    /// An IPv6 address, port, flow label and scope.
    pub const fn v6(ip: [u8; 16], port: u16, flow: u32, scope: u32) -> Self {
        let mut this = Self { family: Domain::V6 as u16, port_or_length: port, ..Self::NONE };
        let (flow, scope) = (flow.to_le_bytes(), scope.to_le_bytes());
        let mut at = 0;
        // Counted: sixteen bytes.
        while at < 16 {
            this.bytes[at] = ip[at];
            at += 1;
        }
        at = 0;
        // Counted: four bytes.
        while at < 4 {
            this.bytes[16 + at] = flow[at];
            this.bytes[20 + at] = scope[at];
            at += 1;
        }
        this
    }

    /// A UNIX path; none when it is too long or holds a zero byte. An empty path is the unnamed
    /// address.
    pub const fn unix(path: &[u8]) -> Option<Self> {
        if path.len() > MAX_PATH {
            return None;
        }
        let mut this =
            Self { family: Domain::Unix as u16, port_or_length: path.len() as u16, ..Self::NONE };
        let mut at = 0;
        // Counted: the path.
        while at < path.len() {
            if path[at] == 0 {
                return None;
            }
            this.bytes[at] = path[at];
            at += 1;
        }
        Some(this)
    }

    /// The family; none for an address that names nothing.
    pub const fn domain(&self) -> Option<Domain> {
        Domain::from_number(self.family)
    }

    /// The port of an IP address, else 0.
    pub const fn port(&self) -> u16 {
        match self.domain() {
            Some(Domain::V4 | Domain::V6) => self.port_or_length,
            _ => 0,
        }
    }

    /// The same IP address with another port.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        if matches!(self.domain(), Some(Domain::V4 | Domain::V6)) {
            self.port_or_length = port;
        }
        self
    }

    /// As words of a message.
    #[inline]
    pub fn to_words(&self) -> [u64; ADDRESS_WORDS] {
        core::array::from_fn(|index| {
            if index == 0 {
                let [a, b, c, d] = [self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]];
                u64::from(self.family)
                    | u64::from(self.port_or_length) << 16
                    | u64::from(u32::from_le_bytes([a, b, c, d])) << 32
            } else {
                let at = index * 8 - 4;
                let mut word = [0; 8];
                for (offset, byte) in word.iter_mut().enumerate() {
                    *byte = self.bytes[at + offset];
                }
                u64::from_le_bytes(word)
            }
        })
    }

    /// From words of a message, taken as they are: [`domain`](Self::domain) and the conversions
    /// check whether they make sense.
    #[inline]
    pub fn from_words(words: &[u64; ADDRESS_WORDS]) -> Self {
        let mut this =
            Self { family: words[0] as u16, port_or_length: (words[0] >> 16) as u16, ..Self::NONE };
        for (at, byte) in this.bytes.iter_mut().enumerate() {
            *byte = (words[(at + 4) / 8] >> ((at + 4) % 8 * 8)) as u8;
        }
        this
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    //! Conversions for programs.

    use core::fmt;
    use std::net;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use super::{Domain, MAX_PATH, SocketAddr};

    impl From<net::SocketAddr> for SocketAddr {
        fn from(address: net::SocketAddr) -> Self {
            match address {
                net::SocketAddr::V4(a) => Self::v4(a.ip().octets(), a.port()),
                net::SocketAddr::V6(a) => {
                    Self::v6(a.ip().octets(), a.port(), a.flowinfo(), a.scope_id())
                }
            }
        }
    }

    impl SocketAddr {
        /// A UNIX path; none when it is too long or holds a zero byte.
        pub fn path(path: &Path) -> Option<Self> {
            Self::unix(path.as_os_str().as_bytes())
        }

        /// As the standard library's type; none for other families.
        pub fn to_ip(&self) -> Option<net::SocketAddr> {
            let word = |at: usize| {
                u32::from_le_bytes([
                    self.bytes[at],
                    self.bytes[at + 1],
                    self.bytes[at + 2],
                    self.bytes[at + 3],
                ])
            };
            match self.domain()? {
                Domain::V4 => {
                    let ip = [self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]];
                    Some((ip, self.port_or_length).into())
                }
                Domain::V6 => {
                    let ip: [u8; 16] = core::array::from_fn(|at| self.bytes[at]);
                    let (flow, scope) = (word(16), word(20));
                    Some(net::SocketAddrV6::new(ip.into(), self.port_or_length, flow, scope).into())
                }
                Domain::Unix => None,
            }
        }

        /// The path of a UNIX address (empty: unnamed); none for other families and for a length
        /// or a zero byte that no path has.
        pub fn to_path(&self) -> Option<PathBuf> {
            let length = usize::from(self.port_or_length);
            if self.domain()? != Domain::Unix || length > MAX_PATH {
                return None;
            }
            let bytes = &self.bytes[..length];
            (!bytes.contains(&0)).then(|| std::ffi::OsStr::from_bytes(bytes).into())
        }
    }

    impl fmt::Display for SocketAddr {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if let Some(ip) = self.to_ip() {
                write!(f, "{ip}")
            } else if let Some(path) = self.to_path() {
                write!(f, "unix:{}", path.display())
            } else {
                f.write_str("no address")
            }
        }
    }

    impl fmt::Debug for SocketAddr {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Display::fmt(self, f)
        }
    }
}
