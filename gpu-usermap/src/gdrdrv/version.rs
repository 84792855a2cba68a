//! Versions of the driver's protocol, and what each brought.

use std::fmt;

/// A version of the driver, or of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes with the protocol.
    pub major: u16,
    /// Changes with additions to it.
    pub minor: u16,
}

impl Version {
    pub(super) const OURS: Self = Self { major: 2, minor: 6 };
    pub(super) const OLDEST: Self = Self { major: 2, minor: 0 };
    pub(super) const WITH_PERSISTENT: Self = Self { major: 2, minor: 4 };
    pub(super) const WITH_INFO_V2: Self = Self { major: 2, minor: 4 };
    pub(super) const WITH_ATTRIBUTES: Self = Self { major: 2, minor: 5 };
    pub(super) const WITH_PIN_V2: Self = Self { major: 2, minor: 5 };

    pub(super) const fn from_word(word: u32) -> Self {
        Self { major: (word >> 16) as u16, minor: word as u16 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
