//! What is due at a time: each socket once, at the earliest time that it was armed for.

use std::collections::BTreeSet;

use gpunet_device::Handle;

use super::entry::Entry;

/// See the module.
#[derive(Default)]
pub(super) struct Timers(BTreeSet<(u64, u64)>);

impl Timers {
    /// Has a socket visited when that time has come, or earlier if it is armed for that.
    pub(super) fn arm(&mut self, entry: &mut Entry, due_ns: u64) {
        if entry.marks.timer_ns.is_some_and(|earlier| earlier <= due_ns) {
            return;
        }
        self.disarm(entry);
        entry.marks.timer_ns = Some(due_ns);
        self.0.insert((due_ns, entry.handle.0));
    }

    /// It waits for no time any more.
    pub(super) fn disarm(&mut self, entry: &mut Entry) {
        if let Some(due_ns) = entry.marks.timer_ns.take() {
            self.0.remove(&(due_ns, entry.handle.0));
        }
    }

    /// A socket whose time has come, which may be gone. Its mark is for the visitor to clear.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Handle> {
        let (due_ns, _) = *self.0.first()?;
        if due_ns > now_ns {
            return None;
        }
        self.0.pop_first().map(|(_, handle)| Handle(handle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timers {
        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }
}
