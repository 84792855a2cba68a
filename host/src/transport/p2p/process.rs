//! Who a process is, to the proxies of others.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// As the system says.
    pub(crate) pid: i32,
    /// A number that it has drawn: another process may get the same pid later.
    pub(crate) token: u128,
}

impl Process {
    /// This one. Another that repeats its token has another pid.
    pub(crate) fn this() -> Self {
        Self { pid: std::process::id() as i32, token: token() }
    }
}

/// A number that no other process has.
pub(super) fn token() -> u128 {
    static TOKEN: OnceLock<u128> = OnceLock::new();
    *TOKEN.get_or_init(|| {
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        half() << 64 | half()
    })
}
