//! What a kernel or a function costs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The GPU that limits are recorded for.
pub(crate) const CPU: &str = "sm_90";

/// What one kernel, or one function of the library with what it reaches, costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footprint {
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Bytes of stack of a thread, along the deepest chain of calls.
    pub(crate) stack: u32,
    /// Bytes of registers that functions store, their own and those that they keep for their callers.
    pub(crate) spills: u32,
    /// Bytes of machine code.
    pub(crate) code: u32,
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, stack, spills, code } = self;
        write!(f, "{registers} / {stack} / {spills} / {:.1}", f64::from(*code) / 1e3)
    }
}
