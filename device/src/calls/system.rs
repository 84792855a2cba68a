//! What else a kernel asks its host for: the time, and a line of text.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{MAX_TEXT, Operation, Request};
use crate::abi::net::Net;
use crate::group::Group;
use crate::request::ask;

use super::{any_shard, checked, led};

/// Nanoseconds since 1970, by the host's clock.
#[inline(always)]
pub fn ggettimeofday<G: Group>(net: Net, group: G) -> i64 {
    led(group, "ggettimeofday", &[], || {
        let request = Request::new(Operation::Time, net.launch(), Handle::NONE, [0; 4]);
        Ok(checked(ask(net, any_shard(net), &request)?)?.number())
    })
}

/// Prints a line on the host, cut off at 208 bytes.
#[inline(always)]
pub fn gprint<G: Group>(net: Net, group: G, text: &[u8]) -> i64 {
    led(group, "gprint", &[text.len() as u64], || print(net, text))
}

#[inline(never)]
fn print(net: Net, text: &[u8]) -> Result<u64, Errno> {
    let length = text.len().min(MAX_TEXT);
    let numbers = [length as u64, 0, 0, 0];
    let mut request = Request::new(Operation::Print, net.launch(), Handle::NONE, numbers);
    for (at, byte) in text.iter().take(length).enumerate() {
        request.put_text_byte(at, *byte);
    }
    checked(ask(net, any_shard(net), &request)?)?;
    Ok(length as u64)
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
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
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
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = digits[at];
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
