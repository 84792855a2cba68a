//! Gives memory back to RDMA devices, on a thread of its own. A device may take long to unregister
//! memory (soft-RoCE was seen to take 50 s), and a proxy thread that waits stops all its sockets.
//!
//! The queue is bounded by who fills it: no memory is registered for a stream while too much of those
//! that are gone is still to be unregistered ([`Releaser::has_room`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::lock::lock;

/// Streams whose memory may be waiting to be unregistered when another one is registered.
const MOST_PENDING: usize = 256;

/// What is dropped where it may take long.
type Registered = Box<dyn Send>;

/// See the module. Dropped, it leaves what is queued to the thread, which ends behind it.
#[derive(Default)]
pub(super) struct Releaser {
    queue: Mutex<Option<mpsc::Sender<Registered>>>,
    pending: Arc<AtomicUsize>,
}

impl Releaser {
    /// Whether memory of one more stream may be registered.
    pub(super) fn has_room(&self) -> bool {
        // Relaxed: it says nothing of other memory.
        self.pending.load(Ordering::Relaxed) < MOST_PENDING
    }

    /// Drops it, later and elsewhere. Never waits.
    pub(super) fn release(&self, registered: Registered) {
        let mut queue = lock(&self.queue);
        self.pending.fetch_add(1, Ordering::Relaxed);
        let unsent = match queue.as_ref() {
            Some(sender) => sender.send(registered).err().map(|unsent| unsent.0),
            None => Some(registered),
        };
        let Some(registered) = unsent else { return };
        // The first one, or the thread has panicked.
        let (sender, receiver) = mpsc::channel::<Registered>();
        let pending = Arc::clone(&self.pending);
        let work = move || {
            for registered in receiver {
                drop(registered);
                pending.fetch_sub(1, Ordering::Relaxed);
            }
        };
        match thread::Builder::new().name("gpunet-release".to_owned()).spawn(work) {
            Ok(_) => {
                // The thread has just begun to receive.
                let _ = sender.send(registered);
                *queue = Some(sender);
            }
            Err(error) => {
                tracing::warn!(%error, "memory is unregistered in a proxy thread");
                drop(registered);
                self.pending.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A device that takes its time: until the test lets it go on.
    struct Slow(Arc<Mutex<()>>);

    impl Drop for Slow {
        fn drop(&mut self) {
            drop(self.0.lock());
        }
    }

    #[test]
    fn who_releases_does_not_wait_and_nobody_registers_without_end() {
        let releaser = Releaser::default();
        let device = Arc::new(Mutex::new(()));
        let busy = device.lock().expect("nobody panics");
        // One that waited for the device would wait for ever.
        for _ in 0..MOST_PENDING {
            assert!(releaser.has_room());
            releaser.release(Box::new(Slow(Arc::clone(&device))));
        }
        assert!(!releaser.has_room());
        drop(busy);
        let end = Instant::now() + gpunet_support::testing::hang_limit(Duration::from_secs(1));
        while releaser.pending.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < end, "all is released at last");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(releaser.has_room());
        assert_eq!(Arc::strong_count(&device), 1);
    }
}
