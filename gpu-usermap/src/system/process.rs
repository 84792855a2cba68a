//! Which process this is. A number alone does not say: a child in a process namespace of its own
//! may have its parent's (number 1, in a container). So the number goes with a count of forks, kept in a
//! page that the system zeroes in every forked child (`MADV_WIPEONFORK`, Linux 4.14).
//!
//! Nothing here takes a lock or allocates: a child that was forked by a process of several threads
//! may call it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A process, distinguished from all that it was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    number: u32,
    /// Larger than that of each ancestor that has asked.
    forks: u64,
}

/// The largest count so far. A child inherits it and counts on.
static LAST: AtomicU64 = AtomicU64::new(0);
/// The word with this process's count, 0 while it has none.
static OWN: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// In its place where the system zeroes no pages in a child: there the number has to do.
static INHERITED: AtomicU64 = AtomicU64::new(0);

impl ProcessId {
    /// The calling process.
    #[must_use]
    pub fn current() -> Self {
        let own = own_word();
        let mut forks = own.load(Ordering::Relaxed);
        if forks == 0 {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            let taken = own.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            forks = taken.map_or_else(|other_thread| other_thread, |_| next);
        }
        Self { number: std::process::id(), forks }
    }

    /// Whether this is the calling process. Calls the system only where that zeroes no pages in a child.
    #[must_use]
    pub fn is_current(self) -> bool {
        let own = own_word();
        let numbered = !ptr::eq(own, &raw const INHERITED) || self.number == std::process::id();
        numbered && self.forks == own.load(Ordering::Relaxed)
    }

    /// Its number, as the system says.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// A process of a test.
    #[cfg(test)]
    pub(crate) const fn fake(number: u32) -> Self {
        Self { number, forks: 0 }
    }
}

fn own_word() -> &'static AtomicU64 {
    let known = OWN.load(Ordering::Acquire);
    // SAFETY: once set it is a word that is never unmapped, or a static.
    if let Some(word) = unsafe { known.as_ref() } {
        return word;
    }
    let mapped = wiped_page();
    let word = mapped.unwrap_or(ptr::from_ref(&INHERITED).cast_mut());
    // Pairs with the load above: who finds the word finds it mapped.
    match OWN.compare_exchange(ptr::null_mut(), word, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*word },
        Err(first) => {
            if let Some(page) = mapped {
                // SAFETY: mapped just now, and nobody else has its address.
                unsafe { libc::munmap(page.cast(), size_of::<AtomicU64>()) };
            }
            // SAFETY: as above, by the thread that was first.
            unsafe { &*first }
        }
    }
}

/// A page whose bytes are 0, here and again in each child.
fn wiped_page() -> Option<*mut AtomicU64> {
    let length = size_of::<AtomicU64>();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the system's choice touches no memory in use; it is
    // zeroed, which is a valid word, and aligned to a page.
    let page = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page that was just mapped.
    if unsafe { libc::madvise(page, length, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above, and nobody has its address.
        unsafe { libc::munmap(page, length) };
        return None;
    }
    Some(page.cast())
}
