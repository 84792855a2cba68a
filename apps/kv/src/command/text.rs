//! Text that one thread puts together in a block of the heap.

use gpunet_device::SharedBuf;

use crate::number;

/// Text in the making; what does not fit is left out, and [`Text::fits`] says so beforehand.
pub(super) struct Text {
    to: SharedBuf,
    length: usize,
}

impl Text {
    pub(super) const fn new(to: SharedBuf) -> Self {
        Self { to, length: 0 }
    }

    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Whether so many bytes more find room.
    pub(super) const fn fits(&self, bytes: usize) -> bool {
        bytes <= self.to.len() - self.length
    }

    /// Drops what was written behind that length.
    pub(super) fn cut(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        if self.fits(text.len()) {
            for (at, byte) in text.iter().enumerate() {
                self.to.set(self.length + at, *byte);
            }
            self.length += text.len();
        }
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        let number = number.min(i64::MAX as u64) as i64;
        let length = number::length(number);
        if self.fits(length) {
            number::store(number, self.to.slice(self.length, length));
            self.length += length;
        }
        self
    }

    /// Bytes as RESP has them.
    pub(super) fn bulk(&mut self, bytes: SharedBuf) {
        self.text(b"$").number(bytes.len() as u64).text(b"\r\n");
        self.bytes(bytes);
        self.text(b"\r\n");
    }

    /// Bytes as they are.
    pub(super) fn bytes(&mut self, bytes: SharedBuf) {
        if self.fits(bytes.len()) {
            for at in 0..bytes.len() {
                self.to.set(self.length + at, bytes.get(at).unwrap_or(b' '));
            }
            self.length += bytes.len();
        }
    }
}
