//! What programs copy to and from GPU memory.

#![allow(unsafe_code, reason = "any bytes are a value of these")]

use gpunet_device::buf::Plain;

use crate::hostile::Mutation;
use crate::op::{Op, Outcome, Register, Span};
use crate::relay::Pair;
use crate::soak;

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: `#[repr(C)]` of numbers and addresses, laid out without gaps.
        unsafe impl Plain for $t {}
    )* };
}
plain!(Mutation, Op, Outcome, Pair, Register, Span, soak::Call, soak::Job, soak::Outcome);
