//! What another library in the same process may do to the driver while kernels run.
#![expect(unsafe_code, reason = "plain driver calls, without gpunet in between")]

use std::time::Duration;

use anyhow::{Context, Result};
use cudarc::driver::result;
use gpunet_terminal::output::complain;

/// Leaves a thread in a call that waits for all kernels of the context, as a framework's free does. It
/// ends with the last of them.
pub(crate) fn free_beside_kernels() -> Result<()> {
    let (send, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if let Err(error) = allocate_and_free(&send) {
            complain("bench", format!("a thread that frees memory: {error}"));
        }
    });
    ready.recv_timeout(Duration::from_secs(5)).context("a thread that frees memory")?;
    // It is in the call by then.
    std::thread::sleep(Duration::from_millis(2));
    Ok(())
}

fn allocate_and_free(ready: &std::sync::mpsc::Sender<()>) -> Result<()> {
    let device = result::device::get(0)?;
    // SAFETY: the primary context is the one that gpunet uses, and stays as long as the process; the
    // memory is freed once, and nobody has its address.
    unsafe {
        let context = result::primary_ctx::retain(device)?;
        result::ctx::set_current(context)?;
        let memory = result::malloc_sync(4096)?;
        // Who waits for it may have given up.
        let _ = ready.send(());
        result::free_sync(memory)?;
        result::primary_ctx::release(device)?;
    }
    Ok(())
}
