//! What a program or a kernel may choose: the transport of sockets, and where the rings of RDMA
//! streams may lie.

use std::fmt;

/// How sockets travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TransportChoice {
    /// Straight from kernel to kernel where the peer is a kernel of this machine and this user;
    /// else by RDMA where the way to the peer has an RDMA device and the peer takes it; else by
    /// the system's sockets. Listeners take all of them.
    #[default]
    Auto = 0,
    /// The system's sockets: TCP, or UNIX sockets for paths.
    Tcp = 1,
    /// RDMA, with rsocket's protocol.
    Rdma = 2,
    /// Straight from kernel to kernel, on this machine.
    Local = 3,
}

impl TransportChoice {
    /// The choice with that number, as `SocketOption::Transport` has it.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        let all = [Self::Auto, Self::Tcp, Self::Rdma, Self::Local];
        all.into_iter().find(|choice| *choice as u64 == number)
    }
}

/// Where the rings of an RDMA stream lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// In GPU memory, which the device has registered as a dma-buf.
    DmaBuf = 1,
    /// In GPU memory, which the device has registered by its address with the help of a
    /// peer-memory driver.
    PeerMemory = 2,
    /// In pinned host memory, which the GPU reads and writes directly.
    Bounce = 4,
}

impl Placement {
    /// In the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::DmaBuf, Self::PeerMemory, Self::Bounce];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DmaBuf => "dma-buf",
            Self::PeerMemory => "peer memory",
            Self::Bounce => "bounce",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Placements that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placements(u8);

impl Placements {
    /// All of them.
    pub const ALL: Self = Self(7);

    /// That one alone.
    #[must_use]
    pub const fn only(placement: Placement) -> Self {
        Self(placement as u8)
    }

    /// These without that one.
    #[must_use]
    pub const fn without(self, placement: Placement) -> Self {
        Self(self.0 & !(placement as u8))
    }

    /// Whether that one may be tried.
    #[must_use]
    pub const fn allow(self, placement: Placement) -> bool {
        self.0 & placement as u8 != 0
    }

    /// As `SocketOption::Placement` has it: the sum of the placements' numbers, at least one.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        match u8::try_from(number) {
            Ok(bits @ 1..=7) => Some(Self(bits)),
            _ => None,
        }
    }

    /// The same as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_a_set() {
        let gpu = Placements::ALL.without(Placement::Bounce);
        assert!(gpu.allow(Placement::DmaBuf) && !gpu.allow(Placement::Bounce));
        assert_eq!(Placements::from_number(gpu.number()), Some(gpu));
        assert_eq!(Placements::only(Placement::Bounce).number(), 4);
        assert_eq!((Placements::from_number(0), Placements::from_number(8)), (None, None));
    }

    #[test]
    fn choices_have_numbers() {
        assert_eq!(TransportChoice::from_number(2), Some(TransportChoice::Rdma));
        assert_eq!(TransportChoice::from_number(3), Some(TransportChoice::Local));
        assert_eq!(TransportChoice::from_number(4), None);
    }
}
