//! Opens a GPU with the kernels of this folder loaded, and waits for kernels.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gpunet_host::gpu::{EmulatedOptions, GpuInfo};
use gpunet_host::{Gpu, GpuChoice, GpuKind, Launch, LoadError, Module, Task, WaitError};
use gpunet_terminal::output::{one_line, say};

use crate::failure::Failure;
use crate::stop::Stop;

static MODULE: Module = gpunet_host::include_module!("gpunet_kernels");

/// How long kernels load before somebody wants to know why.
const LONG: Duration = Duration::from_secs(2);

/// Loads kernels. The driver translates them for its GPU the first time, which may take a minute: one
/// line on standard error, in the name of `program`, says so.
///
/// # Errors
/// As [`Gpu::load`].
pub fn load(program: &str, gpu: &Gpu, module: &Module) -> Result<(), LoadError> {
    let words = format!(
        "{program}: the driver translates the kernels for {}: this may take a minute, the first time",
        gpu.info().name
    );
    if_long(LONG, || say(&words), || gpu.load(module))
}

/// Does something, and something else beside it if it takes long.
fn if_long<T>(limit: Duration, beside: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Without a thread nothing is said.
        let _ = thread::Builder::new().spawn_scoped(scope, move || {
            if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                beside();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Opens a GPU with the kernels loaded; and why that one.
///
/// With `auto`, a CUDA device that cannot run what this build holds makes way for the emulated
/// GPU, and one line on standard error, in the name of `program`, says so.
///
/// # Errors
/// No such GPU, or one that does not take the kernels.
pub fn open(program: &str, choice: &GpuChoice) -> Result<(Gpu, String), Failure> {
    open_with(program, choice, &MODULE)
}

/// The same with other kernels.
///
/// # Errors
/// As [`open`].
pub fn open_with(
    program: &str,
    choice: &GpuChoice,
    module: &Module,
) -> Result<(Gpu, String), Failure> {
    let gpu = Gpu::open(choice.clone())?;
    match load(program, &gpu, module) {
        Ok(()) => {
            let reason = gpu.info().reason.clone();
            Ok((gpu, reason))
        }
        Err(error) if matches!(choice, GpuChoice::Auto) => {
            let reason =
                format!("{} is not used: {}", gpu.info().name, one_line(&error.to_string()));
            say(&format!("{program}: {reason}; using the emulated GPU"));
            let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default()))?;
            gpu.load(module)?;
            Ok((gpu, reason))
        }
        Err(error) => Err(error.into()),
    }
}

/// Threads of a block where the user did not choose: an emulated one costs a switch for each.
#[must_use]
pub fn default_threads(info: &GpuInfo) -> u32 {
    match info.kind {
        GpuKind::Emulated => 32,
        _ => 256,
    }
}

/// How often a wait for a kernel looks whether the program should stop.
pub const LOOK: Duration = Duration::from_millis(50);
/// How long a kernel that was stopped may take.
const STOPPING: Duration = Duration::from_secs(5);

/// Waits for a kernel whose calls all have a limit, so that it ends by itself; or until the user interrupts.
///
/// # Errors
/// A kernel that failed, or an interrupt.
pub fn finish(launch: &Launch, stop: &Stop) -> Result<(), Failure> {
    loop {
        match launch.wait_timeout(LOOK) {
            Err(WaitError::StillRunning { .. }) => {}
            ended => return Ok(ended?),
        }
        if stop.is_set() {
            end(launch)?;
            return Err(Failure::Interrupted);
        }
    }
}

/// Stops a kernel and waits for it.
///
/// # Errors
/// A kernel that failed, or does not stop.
pub fn end(launch: &Launch) -> Result<(), Failure> {
    if !launch.is_finished() {
        launch.abort();
    }
    Ok(launch.wait_timeout(STOPPING)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_what_takes_long_is_reported() {
        let called = AtomicU32::new(0);
        let call = || called.store(called.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        assert_eq!(if_long(Duration::from_secs(60), call, || 7), 7);
        assert_eq!(called.load(Ordering::Relaxed), 0);
        let begin = Instant::now();
        if_long(Duration::ZERO, call, || {
            while called.load(Ordering::Relaxed) == 0 && begin.elapsed() < Duration::from_secs(20) {
                thread::yield_now();
            }
        });
        assert_eq!(called.load(Ordering::Relaxed), 1);
    }
}
