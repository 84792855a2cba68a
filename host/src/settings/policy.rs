//! What kernels may do: which addresses they may connect to and bind, how much they may have and
//! move.
//!
//! A policy belongs to a net and is asked by the proxy, so that no kernel gets round it. It says
//! nothing about sockets that the program itself makes and hands over.
//!
//! Why it is so: decision 14 of docs/explanation/decisions.md.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use gpunet_device::SocketAddr;

use super::limits::{Limits, Quota, Rate};

/// What the kernels of a net may connect to and bind, and how much they may have and move.
///
/// A deny rule refuses what it names. Where there are allow rules for a kind of call, what none of
/// them names is refused, too. Without rules everything is allowed that the program's user may do.
///
/// Limits are for all kernels of the net together; by default there is none beside what the net is
/// made with ([`sockets`](crate::NetBuilder::sockets),
/// [`ring_memory`](crate::NetBuilder::ring_memory)). A call that would exceed the number of sockets
/// is refused. Bytes that would exceed a limit are not refused but wait: the kernel's ring stays full
/// or empty, so that its calls wait as long as their time-outs allow, or say EAGAIN.
///
/// ```
/// # use gpunet_host::Policy;
/// # fn main() -> Result<(), gpunet_host::RuleError> {
/// let policy = Policy::open()
///     .allow_connect("10.0.0.0/8:8000-8999".parse()?)
///     .deny_connect("10.9.0.0/16".parse()?)
///     .allow_bind("unix:/run/my-app/*".parse()?)
///     .max_sockets(100)
///     .max_rate(50_000_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    connect: Rules,
    bind: Rules,
    pub(crate) limits: Limits,
}

/// The rules for one kind of call.
#[derive(Clone, Debug, Default)]
struct Rules {
    /// None: everything.
    allow: Option<Vec<Rule>>,
    deny: Vec<Rule>,
}

impl Policy {
    /// Everything is allowed until rules say otherwise: the default.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// Nothing is allowed until rules say otherwise.
    #[must_use]
    pub fn closed() -> Self {
        let rules = || Rules { allow: Some(Vec::new()), deny: Vec::new() };
        Self { connect: rules(), bind: rules(), limits: Limits::default() }
    }

    /// Kernels may connect to these addresses, and to those of other such rules, and no others.
    #[must_use]
    pub fn allow_connect(mut self, rule: Rule) -> Self {
        self.connect.allow.get_or_insert_default().push(rule);
        self
    }

    /// Kernels may not connect to these addresses.
    #[must_use]
    pub fn deny_connect(mut self, rule: Rule) -> Self {
        self.connect.deny.push(rule);
        self
    }

    /// Kernels may bind these addresses, and those of other such rules, and no others.
    #[must_use]
    pub fn allow_bind(mut self, rule: Rule) -> Self {
        self.bind.allow.get_or_insert_default().push(rule);
        self
    }

    /// Kernels may not bind these addresses.
    #[must_use]
    pub fn deny_bind(mut self, rule: Rule) -> Self {
        self.bind.deny.push(rule);
        self
    }

    /// Kernels may have so many sockets at once: those that they make (one more gets EACCES),
    /// pollers, and those that they accept (peers beyond wait in the system's queue). What the
    /// program makes and hands over does not count.
    #[must_use]
    pub fn max_sockets(mut self, sockets: u32) -> Self {
        self.limits.sockets = Some(Quota::new(sockets.into()));
        self
    }

    /// So many bytes may be on their way at once, in each direction: received and not yet read by a
    /// kernel; sent and not yet taken by the peer (acknowledged, for TCP). A socket that has none may
    /// have 1 KiB beyond, so that none is starved by others that nobody reads. What stands in
    /// kernels' send rings does not count; [`ring_memory`](crate::NetBuilder::ring_memory) limits
    /// that.
    #[must_use]
    pub fn max_in_flight(mut self, bytes: u64) -> Self {
        self.limits.in_flight = Some([(); 2].map(|()| Quota::new(bytes)));
        self
    }

    /// So many bytes may be moved in a second, in both directions together. After a pause a
    /// twentieth of that, or 1 KiB if that is more, may go at once.
    #[must_use]
    pub fn max_rate(mut self, bytes_per_second: u64) -> Self {
        self.limits.rate = Some(Rate::new(bytes_per_second));
        self
    }

    /// Whether kernels may connect to the address.
    pub(crate) fn may_connect(&self, address: &SocketAddr) -> bool {
        match Target::of(address) {
            // The system takes an unspecified address for this machine.
            Some(Target::Ip(ip, port)) if ip.is_unspecified() => {
                let loopback: IpAddr = match ip {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                self.connect.permit(&Target::Ip(loopback, port))
            }
            Some(target) => self.connect.permit(&target),
            // No address at all, which the socket will not take.
            None => true,
        }
    }

    /// Whether kernels may bind the address. `v6_only`: an unspecified IPv6 address stands for
    /// those of IPv4, too, unless the socket says so.
    pub(crate) fn may_bind(&self, address: &SocketAddr, v6_only: bool) -> bool {
        let Some(target) = Target::of(address) else { return true };
        let both = match target {
            Target::Ip(IpAddr::V6(ip), port) if ip.is_unspecified() && !v6_only => {
                self.bind.permit(&Target::Ip(Ipv4Addr::UNSPECIFIED.into(), port))
            }
            _ => true,
        };
        both && self.bind.permit(&target)
    }
}

impl Rules {
    fn permit(&self, target: &Target) -> bool {
        !self.deny.iter().any(|rule| rule.touches(target))
            && self.allow.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.holds(target)))
    }
}

/// An address as rules see it.
enum Target {
    Ip(IpAddr, u16),
    /// As it was given, and as the file system resolves it.
    Path(PathBuf, PathBuf),
}

impl Target {
    fn of(address: &SocketAddr) -> Option<Self> {
        if let Some(ip) = address.to_ip() {
            // An IPv4 address in the clothes of IPv6 reaches the same peers.
            return Some(Self::Ip(ip.ip().to_canonical(), ip.port()));
        }
        let path = std::path::absolute(address.to_path()?).ok()?;
        let resolved = resolve(&path);
        Some(Self::Path(plain(&path), resolved))
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, component| {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain
    })
}

/// With links followed, as far as the path exists.
fn resolve(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent().and_then(|folder| folder.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => plain(path),
    }
}

/// A set of addresses, written as text:
///
/// | text | addresses |
/// | --- | --- |
/// | `*`, `*:80` | all of IPv4 and IPv6, all with that port |
/// | `10.0.0.0/8:8000-8999` | a network, with a range of ports |
/// | `192.0.2.7:80`, `[2001:db8::7]:80` | one address and port |
/// | `fd00::/8`, `[fd00::]/8:80` | a network of IPv6; with ports only in brackets |
/// | `unix:/run/app.sock` | one path |
/// | `unix:/run/app/*`, `unix:*` | all paths below a folder, all paths |
///
/// A socket that binds an unspecified address (`0.0.0.0`, `::`) takes every address of the machine:
/// any deny rule with its port refuses it, and only an allow rule for all addresses allows it. Port
/// 0, by which the system chooses one, is a port like others. Links in paths are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(Set);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Set {
    /// Addresses of a network, or where there is none all of both families.
    Ip { network: Option<(IpAddr, u32)>, ports: RangeInclusive<u16> },
    /// A path, or all those below it.
    Path { path: PathBuf, below: bool },
}

impl Rule {
    /// Whether all that the target stands for is in the set.
    fn holds(&self, target: &Target) -> bool {
        match (&self.0, target) {
            (Set::Ip { network, ports }, Target::Ip(ip, port)) => {
                ports.contains(port)
                    && network.is_none_or(|(network, bits)| {
                        contains(network, bits, *ip) && (bits == 0 || !ip.is_unspecified())
                    })
            }
            (Set::Path { path, below }, Target::Path(_, resolved)) => under(path, *below, resolved),
            _ => false,
        }
    }

    /// Whether any of what the target stands for is in the set.
    fn touches(&self, target: &Target) -> bool {
        match (&self.0, target) {
            (Set::Ip { network, ports }, Target::Ip(ip, port)) => {
                let same_family = |network: IpAddr| network.is_ipv4() == ip.is_ipv4();
                ports.contains(port)
                    && network.is_none_or(|(network, bits)| {
                        contains(network, bits, *ip) || ip.is_unspecified() && same_family(network)
                    })
            }
            (Set::Path { path, below }, Target::Path(given, resolved)) => {
                under(path, *below, given) || under(path, *below, resolved)
            }
            _ => false,
        }
    }
}

fn contains(network: IpAddr, bits: u32, ip: IpAddr) -> bool {
    let first = |value: u128, width: u32| value.checked_shr(width - bits).unwrap_or(0);
    match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            first(network.to_bits().into(), 32) == first(ip.to_bits().into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => {
            first(network.to_bits(), 128) == first(ip.to_bits(), 128)
        }
        _ => false,
    }
}

fn under(rule: &Path, below: bool, path: &Path) -> bool {
    if below { path.starts_with(rule) && path != rule } else { path == rule }
}

/// A rule that cannot be read.
#[derive(Clone, thiserror::Error)]
#[error(
    "`{text}` is no rule: {why}; such as 10.0.0.0/8:80-90, [fd00::]/8:80, *:80 or unix:/run/app/*"
)]
pub struct RuleError {
    text: String,
    why: &'static str,
}

debug_as_sentence!(RuleError);

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        parse(text).map(Self).map_err(|why| RuleError { text: text.to_owned(), why })
    }
}

fn parse(text: &str) -> Result<Set, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        return parse_path(path);
    }
    let (address, ports) = split_ports(text)?;
    let ports = match ports {
        None => 0..=u16::MAX,
        Some(ports) => {
            let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
            let port = |text: &str| text.parse::<u16>().map_err(|_| "a port is 0 to 65535");
            let (first, last) = (port(first)?, port(last)?);
            if first > last {
                return Err("its ports go backwards");
            }
            first..=last
        }
    };
    if address == "*" {
        return Ok(Set::Ip { network: None, ports });
    }
    let (ip, bits) = match address.split_once('/') {
        Some((ip, bits)) => (ip, Some(bits)),
        None => (address, None),
    };
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let ip: IpAddr = ip.parse().map_err(|_| "it has no address")?;
    let width = if ip.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => width,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= width).ok_or("its prefix is off")?,
    };
    if ip.to_canonical() != ip {
        return Err("an IPv4 address is to be written as one");
    }
    Ok(Set::Ip { network: Some((ip, bits)), ports })
}

fn parse_path(path: &str) -> Result<Set, &'static str> {
    let (path, below) = match path.strip_suffix('*') {
        Some("") => return Ok(Set::Path { path: PathBuf::from("/"), below: true }),
        Some(folder) => (folder.strip_suffix('/').ok_or("a `*` follows a `/`")?, true),
        None => (path, false),
    };
    if path.contains('\0') {
        return Err("its path has a zero byte");
    }
    if !below && path.trim_end_matches('/').ends_with('*') {
        return Err("a `*` follows a `/`, and nothing follows it");
    }
    let path = if path.is_empty() && below { Path::new("/") } else { Path::new(path) };
    if path.is_absolute() {
        // What rules are compared with has its links followed.
        Ok(Set::Path { path: resolve(path), below })
    } else {
        Err("its path does not begin with `/`")
    }
}

/// The address of a rule and its ports.
fn split_ports(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    let after = text.rfind([']', '/']).map_or(0, |at| at + 1);
    let colons = text.matches(':').count();
    match text[after..].split_once(':') {
        // Without brackets, an address of IPv6.
        Some(_) if after == 0 && colons > 1 => Ok((text, None)),
        Some((bits, ports)) => Ok((&text[..after + bits.len()], Some(ports))),
        None => Ok((text, None)),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Set::Ip { network, ports } => {
                match network {
                    None => write!(f, "*")?,
                    Some((IpAddr::V4(ip), bits)) => write!(f, "{ip}/{bits}")?,
                    Some((IpAddr::V6(ip), bits)) => write!(f, "[{ip}]/{bits}")?,
                }
                if *ports == (0..=u16::MAX) {
                    return Ok(());
                }
                write!(f, ":{}-{}", ports.start(), ports.end())
            }
            Set::Path { path, below } => {
                let path = path.display().to_string();
                let star = if *below { "/*" } else { "" };
                write!(f, "unix:{}{star}", if *below { path.trim_end_matches('/') } else { &path })
            }
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
