//! Addresses as people write them: `HOST:PORT`, `[IPV6]:PORT` or `unix:/path`.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use gpunet_device::SocketAddr;

/// An address from the command line; host names are not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port.
    Ip {
        /// Without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 lets the system choose one to listen on.
        port: u16,
    },
    /// A UNIX-domain socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write HOST:PORT, [IPV6]:PORT or unix:/path";
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return match SocketAddr::path(&path) {
                _ if path.as_os_str().is_empty() => Err(format!("the path is missing: {FORMS}")),
                None => Err("a socket's path has at most 107 bytes".to_owned()),
                Some(_) => Ok(Self::Unix(path)),
            };
        }
        let (host, port) =
            text.rsplit_once(':').ok_or_else(|| format!("the port is missing: {FORMS}"))?;
        let port =
            port.parse().map_err(|_| format!("'{port}' is no port from 0 to 65535: {FORMS}"))?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inside) => inside
                .split('%')
                .next()
                .and_then(|address| address.parse::<Ipv6Addr>().ok())
                .map(|_| inside)
                .ok_or_else(|| format!("'{inside}' is no IPv6 address: {FORMS}"))?,
            None if host.contains(':') => {
                return Err(format!("an IPv6 address needs brackets: {FORMS}"));
            }
            None => host,
        };
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(valid) {
            return Err(format!("'{host}' is no host: {FORMS}"));
        }
        Ok(Self::Ip { host: host.to_owned(), port })
    }
}

impl Address {
    /// The address for sockets. A name that stands for both kinds of IP address is taken as its
    /// IPv4 one: that is what a server at `127.0.0.1` and a client of `localhost` expect.
    ///
    /// # Errors
    /// Why there is none and what to do, in one line.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        match self {
            Self::Unix(path) => {
                SocketAddr::path(path).ok_or_else(|| format!("'{self}' is no path for a socket"))
            }
            Self::Ip { host, port } => {
                let found: Vec<_> = (host.as_str(), *port)
                    .to_socket_addrs()
                    .map_err(|error| {
                        format!(
                            "cannot resolve '{host}': {}; give an IP address, or mend the name",
                            plain(&error)
                        )
                    })?
                    .collect();
                let best = found.iter().find(|address| address.is_ipv4()).or(found.first());
                best.map(|address| SocketAddr::from(*address))
                    .ok_or_else(|| format!("'{host}' has no address: give an IP address"))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Ip { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Ip { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// What the system said, without its number.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_are_read_and_written_alike() {
        for text in ["127.0.0.1:7000", "[::1]:7000", "localhost:0", "unix:/tmp/a", "[fe80::1%2]:1"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_say_how_to_write_one() {
        for text in ["", "localhost", "localhost:", ":80", "::1:80", "[::1:80", "[x]:80", "a b:1"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
        for text in ["unix:", "a:65536", "a:-1", &format!("unix:/{}", "x".repeat(107))] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_both_kinds_are_taken_as_ipv4() {
        let address = "127.0.0.1:9".parse::<Address>().unwrap().resolve().unwrap();
        assert_eq!(address, SocketAddr::v4([127, 0, 0, 1], 9));
    }
}
