//! A limit for calls that may never return: a driver that waits for its device, a file that does.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `f` returns; nothing if that takes longer, if it panics, or if there is no thread for it.
/// One that hangs is left to the end of the process.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    start(f)?.recv_timeout(limit).ok()
}

/// Starts `f` in a thread of its own; its result comes through the channel.
pub(crate) fn start<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Option<mpsc::Receiver<T>> {
    let (to, from) = mpsc::sync_channel(1);
    let body = move || {
        // Nobody listens any more: too late.
        let _ = to.send(f());
    };
    thread::Builder::new().name("diagnose-look".to_owned()).spawn(body).ok()?;
    Some(from)
}
