//! A cooperative call as a thread brings it to a barrier: compared with those of others, and named in
//! reports of threads that disagree.

use std::fmt;
use std::ptr::NonNull;

use gpunet_device::SocketAddr;
use gpunet_device::abi::address::ADDRESS_WORDS;
use gpunet_device::simt::emulated::Site;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) call: &'static str,
    pub(super) arguments: Arguments,
    /// Where in the kernel it was made.
    pub(super) site: Site,
}

impl Call {
    /// Whether it is the same call with the same arguments.
    ///
    /// # Safety
    /// As for [`Arguments::words`], of both.
    pub(super) unsafe fn agrees(&self, other: &Self) -> bool {
        // SAFETY: the caller's promise.
        self.call == other.call && unsafe { self.arguments.words() == other.arguments.words() }
    }

    /// The call as its programmer would write it, and where.
    ///
    /// # Safety
    /// As for [`Arguments::words`].
    pub(super) unsafe fn describe(&self) -> String {
        // SAFETY: the caller's promise.
        let arguments = written(unsafe { self.arguments.words() });
        let (call, site) = (self.call, self.site);
        format!("in {call}({arguments}) at {site}")
    }
}

/// The arguments of a call, on the stack of the thread that makes it: copied, they would cost each
/// call what only reports need.
#[derive(Clone, Copy)]
pub(super) struct Arguments(NonNull<[u64]>);

impl Arguments {
    pub(super) fn new(words: &[u64]) -> Self {
        Self(NonNull::from(words))
    }

    /// The words.
    ///
    /// # Safety
    /// The thread is inside the call, where it stands still.
    unsafe fn words(&self) -> &[u64] {
        // SAFETY: the caller's promise.
        unsafe { self.0.as_ref() }
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arguments").field(&self.0.len()).finish()
    }
}

/// Arguments as a person reads them: numbers, a socket's address behind its handle.
fn written(words: &[u64]) -> String {
    if let [handle, address @ ..] = words
        && let Ok(address) = <&[u64; ADDRESS_WORDS]>::try_from(address)
    {
        return format!("{}, {}", number(*handle), SocketAddr::from_words(address));
    }
    words.iter().map(|word| number(*word)).collect::<Vec<_>>().join(", ")
}

/// Small numbers as such, negative ones too; handles and addresses in memory as they are printed
/// elsewhere.
fn number(word: u64) -> String {
    match word.cast_signed() {
        small @ -0xFFFF..=0xFFFF_FFFF => small.to_string(),
        _ => format!("{word:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_written_as_a_person_reads_them() {
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[1, u64::MAX, 1 << 40]), "1, -1, 0x10000000000");
        let mut words = vec![5];
        words.extend(SocketAddr::v4([127, 0, 0, 1], 80).to_words());
        assert_eq!(written(&words), "5, 127.0.0.1:80");
    }
}
