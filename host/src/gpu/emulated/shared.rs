//! Shared memory of a block: what its launch asked for, and the variables that a kernel in another language
//! declares.
//!
//! The block's threads reach it from their coroutines, all on one OS thread.

use std::cell::{RefCell, UnsafeCell};
use std::collections::HashMap;

use super::MAX_SHARED_BYTES;

/// What fresh shared memory holds. Hardware leaves what the last block wrote; zeroes would hide
/// kernels that rely on them.
const UNDEFINED: Line = Line([0xA5; 128]);

/// As variables may be aligned in C++.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u8; 128]);

/// A piece that lies still.
struct Piece {
    bytes: usize,
    lines: Box<[UnsafeCell<Line>]>,
}

impl Piece {
    fn new(bytes: usize) -> Self {
        let lines = bytes.div_ceil(size_of::<Line>());
        Self { bytes, lines: (0..lines).map(|_| UnsafeCell::new(UNDEFINED)).collect() }
    }

    fn address(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.lines.as_ptr()).cast()
    }
}

/// See the module.
pub(super) struct SharedMemory {
    of_launch: Piece,
    /// By the address of what names each in the kernel's image.
    variables: RefCell<HashMap<usize, Piece>>,
}

impl SharedMemory {
    /// With so many bytes that the launch asked for.
    pub(super) fn new(bytes: usize) -> Self {
        Self { of_launch: Piece::new(bytes), variables: RefCell::default() }
    }

    /// What the launch asked for.
    pub(super) fn of_launch(&self) -> (*mut u8, usize) {
        (self.of_launch.address(), self.of_launch.bytes)
    }

    /// That of a variable, made where it is named for the first time.
    pub(super) fn variable(&self, key: usize, bytes: usize) -> Result<*mut u8, String> {
        let mut variables = self.variables.borrow_mut();
        if let Some(piece) = variables.get(&key) {
            return match piece.bytes == bytes {
                true => Ok(piece.address()),
                false => Err(format!(
                    "a shared variable of {bytes} bytes was one of {} bytes before: name each by an \
                     address of its own",
                    piece.bytes
                )),
            };
        }
        let pieces = variables.values().map(|piece| piece.bytes).sum::<usize>();
        let all = (self.of_launch.bytes + pieces).saturating_add(bytes);
        if all > MAX_SHARED_BYTES as usize {
            return Err(format!(
                "{all} bytes of shared memory a block, at most {MAX_SHARED_BYTES} possible: declare \
                 fewer, or ask for less at the launch"
            ));
        }
        Ok(variables.entry(key).or_insert_with(|| Piece::new(bytes)).address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_again_by_its_key() {
        let memory = SharedMemory::new(1000);
        let (first, second) = (memory.variable(1, 8).unwrap(), memory.variable(2, 8).unwrap());
        assert_ne!(first, second);
        for other in 3..100 {
            memory.variable(other, 300).unwrap();
        }
        assert_eq!(memory.variable(1, 8).unwrap(), first);
        assert!(
            first.addr().is_multiple_of(128) && memory.of_launch().0.addr().is_multiple_of(128)
        );
        assert!(memory.variable(1, 16).unwrap_err().contains("was one of 8 bytes"));
    }

    #[test]
    fn a_block_has_so_much_and_no_more() {
        let memory = SharedMemory::new(MAX_SHARED_BYTES as usize - 100);
        memory.variable(1, 60).unwrap();
        assert!(memory.variable(2, 41).unwrap_err().contains("at most 232448 possible"));
        assert!(memory.variable(2, usize::MAX).is_err());
        memory.variable(2, 40).unwrap();
    }
}
