//! Atomics of the emulated GPU: those of the CPU, for which the two scopes are one.

#![allow(unsafe_code, reason = "raw words")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::simt::atomic::{Atomic, Fetch};

pub(crate) fn fence(_system: bool, order: Ordering) {
    if order != Ordering::Relaxed {
        core::sync::atomic::fence(order);
    }
}

macro_rules! atomic {
    ($word:ty, $atomic:ident) => {
        impl Atomic for $word {
            unsafe fn load(at: *mut Self, _system: bool, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(at) }.load(order)
            }

            unsafe fn store(at: *mut Self, value: Self, _system: bool, order: Ordering) {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(at) }.store(value, order);
            }

            unsafe fn fetch(
                at: *mut Self,
                with: Fetch,
                value: Self,
                _system: bool,
                order: Ordering,
            ) -> Self {
                // SAFETY: the caller's promise.
                let word = unsafe { $atomic::from_ptr(at) };
                match with {
                    Fetch::Swap => word.swap(value, order),
                    Fetch::Add => word.fetch_add(value, order),
                    Fetch::And => word.fetch_and(value, order),
                    Fetch::Or => word.fetch_or(value, order),
                    Fetch::Xor => word.fetch_xor(value, order),
                    Fetch::Max => word.fetch_max(value, order),
                    Fetch::Min => word.fetch_min(value, order),
                }
            }

            unsafe fn compare_exchange(
                at: *mut Self,
                current: Self,
                new: Self,
                _system: bool,
                success: Ordering,
                failure: Ordering,
            ) -> Self {
                // SAFETY: the caller's promise.
                let word = unsafe { $atomic::from_ptr(at) };
                let (Ok(old) | Err(old)) = word.compare_exchange(current, new, success, failure);
                old
            }

            fn negated(self) -> Self {
                self.wrapping_neg()
            }
        }
    };
}

atomic!(u32, AtomicU32);
atomic!(u64, AtomicU64);
