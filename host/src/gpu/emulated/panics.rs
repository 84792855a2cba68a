//! Panics inside kernels: caught, kept off stderr, and turned into text for the error.
//!
//! Workers wrap every turn of a coroutine in [`guard`]. The process's panic hook is replaced once
//! by one that records instead of printing while a kernel's thread runs, and that forwards to the
//! former hook otherwise.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs the hook; later calls do nothing.
pub(super) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IN_KERNEL.get() {
                return former(info);
            }
            let message = text(info.payload());
            let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line()));
            LAST.set(Some(format!("panic{}: {message}", place.unwrap_or_default())));
        }));
    });
}

/// Runs a kernel's code; a panic comes back as its message and place, in one line.
pub(super) fn guard<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    IN_KERNEL.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(code));
    IN_KERNEL.set(false);
    result.map_err(|payload| {
        // Without a record the program has replaced the hook; the payload still has the message.
        let message = LAST.take().unwrap_or_else(|| format!("panic: {}", text(&*payload)));
        message.replace('\n', " ")
    })
}

fn text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}
