//! What else a kernel asks its host for: the time, and a line of text.

use crate::abi::message::MAX_TEXT;
use crate::abi::net::Net;
use crate::group::Group;
use crate::library;

/// Nanoseconds since 1970, by the host's clock.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ggettimeofday<G: Group>(net: Net, group: G) -> i64 {
    group.agree("ggettimeofday", &[]);
    // SAFETY: numbers alone.
    unsafe { library::time(net, group) }
}

/// Prints a line on the host, cut off at 208 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gprint<G: Group>(net: Net, group: G, text: &[u8]) -> i64 {
    group.agree("gprint", &[text.len() as u64]);
    // SAFETY: a slice.
    unsafe { library::print(net, group, text.as_ptr(), text.len()) }
}

/// A line of text and numbers for [`gprint`], put together without formatting machinery.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bytes: [u8; MAX_TEXT],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; MAX_TEXT], length: 0 }
    }
}

impl Line {
    /// Appends text; what does not fit is dropped.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        for byte in text.bytes() {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = byte;
                self.length += 1;
            }
        }
        self
    }

    /// Appends a number.
    #[must_use]
    pub fn number(mut self, number: i64) -> Self {
        if number < 0 {
            self = self.text("-");
        }
        let mut digits = [0_u8; 20];
        let mut rest = number.unsigned_abs();
        let mut count = 0;
        for digit in &mut digits {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        for at in (0..count).rev() {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = digits[at];
                self.length += 1;
            }
        }
        self
    }

    /// What was put together.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}
