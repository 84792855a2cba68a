//! Atomics with the scope and the ordering in the instruction. The compiler's own read-modify-writes
//! come out relaxed, whatever they are asked for, and its loads, stores and fences in the widest scope.
//!
//! Addresses are generic: the word may lie in shared memory. Sequentially consistent accesses follow a
//! `fence.sc`, as CUDA's own do. Assembly is not convergent; atomics need not be.

#![allow(unsafe_code, reason = "assembly")]

use core::arch::asm;
use core::sync::atomic::Ordering;

use crate::simt::atomic::{Atomic, Fetch};

/// One instruction, for either scope.
macro_rules! scoped {
    ($system:expr, $before:literal, $behind:expr, $($operand:tt)*) => {
        // SAFETY: the caller's promise.
        unsafe {
            if $system {
                asm!(concat!($before, ".sys", $behind), $($operand)* options(nostack));
            } else {
                asm!(concat!($before, ".gpu", $behind), $($operand)* options(nostack));
            }
        }
    };
}

/// A read-modify-write, for each ordering and scope.
macro_rules! atom {
    ($system:expr, $order:expr, $behind:expr, $($operand:tt)*) => {
        match $order {
            Ordering::Relaxed => scoped!($system, "atom.relaxed", $behind, $($operand)*),
            Ordering::Acquire => scoped!($system, "atom.acquire", $behind, $($operand)*),
            Ordering::Release => scoped!($system, "atom.release", $behind, $($operand)*),
            Ordering::AcqRel => scoped!($system, "atom.acq_rel", $behind, $($operand)*),
            _ => {
                fence($system, Ordering::SeqCst);
                scoped!($system, "atom.acquire", $behind, $($operand)*);
            }
        }
    };
}

/// Orders memory accesses of the calling thread.
#[inline(always)]
pub(crate) fn fence(system: bool, order: Ordering) {
    match order {
        Ordering::Relaxed => {}
        Ordering::SeqCst => scoped!(system, "fence.sc", ";",),
        _ => scoped!(system, "fence.acq_rel", ";",),
    }
}

/// One ordering for both outcomes of a compare-and-exchange, which is one instruction.
#[inline(always)]
const fn both(success: Ordering, failure: Ordering) -> Ordering {
    match (success, failure) {
        (_, Ordering::SeqCst) => Ordering::SeqCst,
        (Ordering::Relaxed, Ordering::Acquire) => Ordering::Acquire,
        (Ordering::Release, Ordering::Acquire) => Ordering::AcqRel,
        _ => success,
    }
}

macro_rules! atomic {
    ($word:ty, $class:ident, $bits:literal, $number:literal) => {
        impl Atomic for $word {
            #[inline(always)]
            unsafe fn load(at: *mut Self, system: bool, order: Ordering) -> Self {
                let value: Self;
                if order == Ordering::Relaxed {
                    scoped!(system, "ld.relaxed", concat!(".", $bits, " {}, [{}];"),
                        out($class) value, in(reg64) at,);
                } else {
                    if order == Ordering::SeqCst {
                        fence(system, order);
                    }
                    scoped!(system, "ld.acquire", concat!(".", $bits, " {}, [{}];"),
                        out($class) value, in(reg64) at,);
                }
                value
            }

            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self, system: bool, order: Ordering) {
                if order == Ordering::Release {
                    scoped!(system, "st.release", concat!(".", $bits, " [{}], {};"),
                        in(reg64) at, in($class) value,);
                } else {
                    if order == Ordering::SeqCst {
                        fence(system, order);
                    }
                    scoped!(system, "st.relaxed", concat!(".", $bits, " [{}], {};"),
                        in(reg64) at, in($class) value,);
                }
            }

            #[inline(always)]
            unsafe fn fetch(
                at: *mut Self,
                with: Fetch,
                value: Self,
                system: bool,
                order: Ordering,
            ) -> Self {
                let old: Self;
                macro_rules! by {
                    ($operation:expr) => {
                        atom!(system, order, concat!(".", $operation, " {}, [{}], {};"),
                            out($class) old, in(reg64) at, in($class) value,)
                    };
                }
                match with {
                    Fetch::Swap => by!(concat!("exch.", $bits)),
                    Fetch::Add => by!(concat!("add.", $number)),
                    Fetch::And => by!(concat!("and.", $bits)),
                    Fetch::Or => by!(concat!("or.", $bits)),
                    Fetch::Xor => by!(concat!("xor.", $bits)),
                    Fetch::Max => by!(concat!("max.", $number)),
                    Fetch::Min => by!(concat!("min.", $number)),
                }
                old
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                at: *mut Self,
                current: Self,
                new: Self,
                system: bool,
                success: Ordering,
                failure: Ordering,
            ) -> Self {
                let old: Self;
                atom!(system, both(success, failure), concat!(".cas.", $bits, " {}, [{}], {}, {};"),
                    out($class) old, in(reg64) at, in($class) current, in($class) new,);
                old
            }

            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
        }
    };
}

atomic!(u32, reg32, "b32", "u32");
atomic!(u64, reg64, "b64", "u64");
