//! Status codes, grouped by whose fault it is, and the sentence of a thread's last error.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpunet_host::{
    ControlMemoryRefused, DownError, Errno, GpuError, KernelError, LaunchError, LoadError,
    MemoryError, NetError, OpenError, SocketError, StreamError, StreamLimit, WaitError,
};

/// How a call went: GPUNET_OK, or one of the codes below. Thousands say whose fault it is: 1 the caller's, 2 the
/// peer's, 3 the system's, 4 the kernel's, 5 the GPU's or its driver's, 6 of gpunet itself. None of them is an error
/// number of Linux.
pub type gpunet_status = i32;

/// Version of the host's part of the C ABI; that of the device's part is GPUNET_C_ABI_MAJOR.
pub const GPUNET_HOST_ABI: u32 = 1;

/// It went well.
pub const GPUNET_OK: i32 = 0;
/// Caller: an address or a handle is null.
pub const GPUNET_ENULL: i32 = 1001;
/// Caller: a handle that was freed, or is none of this type.
pub const GPUNET_EHANDLE: i32 = 1002;
/// Caller: a value, name or text that makes no sense.
pub const GPUNET_EARGUMENT: i32 = 1003;
/// Caller: a process that was forked uses what its parent opened.
pub const GPUNET_EFORKED: i32 = 1004;
/// Caller: no image of kernels, or one for another GPU.
pub const GPUNET_EIMAGE: i32 = 1010;
/// Caller: an image that was built for another version of the C ABI, or of gpunet.
pub const GPUNET_EVERSION: i32 = 1011;
/// Caller: an image that calls functions which nobody defines.
pub const GPUNET_ESYMBOL: i32 = 1012;
/// Caller: an image has no kernel of that name.
pub const GPUNET_EKERNEL: i32 = 1013;
/// Caller: another number of arguments, or of other sizes, than the kernel takes.
pub const GPUNET_EPARAMETERS: i32 = 1014;
/// Caller: blocks, threads or shared memory that cannot be.
pub const GPUNET_ESHAPE: i32 = 1015;
/// Caller: bytes or words that a buffer does not have.
pub const GPUNET_ERANGE: i32 = 1016;
/// Caller: something of another GPU, or another stream.
pub const GPUNET_EOTHERGPU: i32 = 1017;
/// Caller: too many at once.
pub const GPUNET_ELIMIT: i32 = 1018;
/// Caller: a kernel runs, and it must not.
pub const GPUNET_ERUNNING: i32 = 1019;
/// Caller: what was waited for is not done in the time given.
pub const GPUNET_ETIMEOUT: i32 = 1020;
/// Caller: the net, queue or lease is closed.
pub const GPUNET_EGONE: i32 = 1021;
/// Caller: this GPU cannot do that.
pub const GPUNET_EUNSUPPORTED: i32 = 1022;
/// Caller: no such socket, or not in that state; gpunet_last_errno has the number.
pub const GPUNET_ESOCKET: i32 = 1023;
/// Peer: it closed, reset, refused or did not answer; gpunet_last_errno has the number.
pub const GPUNET_EPEER: i32 = 2001;
/// System: a call failed, or something is not installed.
pub const GPUNET_ESYSTEM: i32 = 3001;
/// System: nobody can listen at that address, or not so; gpunet_last_errno has the number.
pub const GPUNET_ELISTEN: i32 = 3002;
/// System: memory that cannot be had.
pub const GPUNET_EMEMORY: i32 = 3003;
/// Kernel: an illegal address, a trap, a panic.
pub const GPUNET_ETRAP: i32 = 4001;
/// Kernel: threads of a group reach different barriers, or make different calls.
pub const GPUNET_EDIVERGED: i32 = 4002;
/// Kernel: all its threads wait for one another.
pub const GPUNET_EDEADLOCK: i32 = 4003;
/// Kernel: it did not end when it was stopped, and was killed.
pub const GPUNET_EKILLED: i32 = 4004;
/// Kernel: an earlier one faulted, and with it the net or stream.
pub const GPUNET_EFAULTED: i32 = 4005;
/// GPU: no driver, one that is too old, or no such device.
pub const GPUNET_EDEVICE: i32 = 5001;
/// GPU: its context is lost.
pub const GPUNET_ECONTEXT: i32 = 5002;
/// GPU: a call of the driver failed.
pub const GPUNET_EDRIVER: i32 = 5003;
/// gpunet: a panic was caught.
pub const GPUNET_EINTERNAL: i32 = 6001;
/// gpunet: the net is down.
pub const GPUNET_EDOWN: i32 = 6002;

/// Every code with its name, for [`gpunet_status_name`].
const NAMES: &[(i32, &CStr)] = &[
    (GPUNET_OK, c"GPUNET_OK"),
    (GPUNET_ENULL, c"GPUNET_ENULL"),
    (GPUNET_EHANDLE, c"GPUNET_EHANDLE"),
    (GPUNET_EARGUMENT, c"GPUNET_EARGUMENT"),
    (GPUNET_EFORKED, c"GPUNET_EFORKED"),
    (GPUNET_EIMAGE, c"GPUNET_EIMAGE"),
    (GPUNET_EVERSION, c"GPUNET_EVERSION"),
    (GPUNET_ESYMBOL, c"GPUNET_ESYMBOL"),
    (GPUNET_EKERNEL, c"GPUNET_EKERNEL"),
    (GPUNET_EPARAMETERS, c"GPUNET_EPARAMETERS"),
    (GPUNET_ESHAPE, c"GPUNET_ESHAPE"),
    (GPUNET_ERANGE, c"GPUNET_ERANGE"),
    (GPUNET_EOTHERGPU, c"GPUNET_EOTHERGPU"),
    (GPUNET_ELIMIT, c"GPUNET_ELIMIT"),
    (GPUNET_ERUNNING, c"GPUNET_ERUNNING"),
    (GPUNET_ETIMEOUT, c"GPUNET_ETIMEOUT"),
    (GPUNET_EGONE, c"GPUNET_EGONE"),
    (GPUNET_EUNSUPPORTED, c"GPUNET_EUNSUPPORTED"),
    (GPUNET_ESOCKET, c"GPUNET_ESOCKET"),
    (GPUNET_EPEER, c"GPUNET_EPEER"),
    (GPUNET_ESYSTEM, c"GPUNET_ESYSTEM"),
    (GPUNET_ELISTEN, c"GPUNET_ELISTEN"),
    (GPUNET_EMEMORY, c"GPUNET_EMEMORY"),
    (GPUNET_ETRAP, c"GPUNET_ETRAP"),
    (GPUNET_EDIVERGED, c"GPUNET_EDIVERGED"),
    (GPUNET_EDEADLOCK, c"GPUNET_EDEADLOCK"),
    (GPUNET_EKILLED, c"GPUNET_EKILLED"),
    (GPUNET_EFAULTED, c"GPUNET_EFAULTED"),
    (GPUNET_EDEVICE, c"GPUNET_EDEVICE"),
    (GPUNET_ECONTEXT, c"GPUNET_ECONTEXT"),
    (GPUNET_EDRIVER, c"GPUNET_EDRIVER"),
    (GPUNET_EINTERNAL, c"GPUNET_EINTERNAL"),
    (GPUNET_EDOWN, c"GPUNET_EDOWN"),
];

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: gpunet_status,
    /// Of Linux, positive; 0: none.
    pub(crate) errno: i32,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(status: gpunet_status, sentence: impl Into<String>) -> Self {
        Self { status, errno: 0, sentence: sentence.into() }
    }

    pub(crate) fn argument(sentence: impl Into<String>) -> Self {
        Self::new(GPUNET_EARGUMENT, sentence)
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(GPUNET_ENULL, format!("{what} is null"))
    }
}

/// What an error is as a status: a number, one with an error number of Linux, or another error's failure.
enum Outcome {
    Status(gpunet_status, Errno),
    Failure(Failure),
}

impl From<gpunet_status> for Outcome {
    fn from(status: gpunet_status) -> Self {
        Self::Status(status, Errno(0))
    }
}

impl From<(gpunet_status, Errno)> for Outcome {
    fn from((status, errno): (gpunet_status, Errno)) -> Self {
        Self::Status(status, errno)
    }
}

impl<E: Into<Failure>> From<(E,)> for Outcome {
    fn from((error,): (E,)) -> Self {
        Self::Failure(error.into())
    }
}

/// The failures of errors: what a match says of each.
macro_rules! failures {
    ($($error:ident { $($pattern:pat => $outcome:expr,)* })*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                use $error as E;
                let sentence = error.to_string();
                match match error { $($pattern => Outcome::from($outcome),)* } {
                    Outcome::Status(status, errno) => Self { status, errno: errno.0, sentence },
                    Outcome::Failure(failure) => failure,
                }
            }
        }
    )* };
}

failures! {
    GpuError {
        E::DriverTooOld { .. } => GPUNET_EDEVICE,
        E::Driver { .. } => GPUNET_EDRIVER,
        E::ContextLost { .. } => GPUNET_ECONTEXT,
        E::Forked { .. } => GPUNET_EFORKED,
        E::Unsupported { .. } => GPUNET_EUNSUPPORTED,
        E::System { errno, .. } => (GPUNET_ESYSTEM, errno),
        _ => GPUNET_ESYSTEM,
    }
    OpenError {
        E::Gpu(error) => (error,),
        E::UnknownChoice(_) => GPUNET_EARGUMENT,
        _ => GPUNET_EDEVICE,
    }
    LoadError {
        E::Gpu(error) => (error,),
        E::Version(_) => GPUNET_EVERSION,
        E::MissingSymbols { .. } => GPUNET_ESYMBOL,
        E::WhileRunning { .. } => GPUNET_ERUNNING,
        _ => GPUNET_EIMAGE,
    }
    LaunchError {
        E::Gpu(error) => (error,),
        E::Down(error) => (error,),
        E::NotLoaded(_) => GPUNET_EIMAGE,
        E::UnknownKernel { .. } => GPUNET_EKERNEL,
        E::Parameters { .. } => GPUNET_EPARAMETERS,
        E::Shape(_) | E::NotResident { .. } => GPUNET_ESHAPE,
        E::TooManyKernels { .. } | E::TooManyLaunches(_) => GPUNET_ELIMIT,
        E::OtherGpu(_) => GPUNET_EOTHERGPU,
        _ => GPUNET_EARGUMENT,
    }
    MemoryError {
        E::Gpu(error) => (error,),
        E::OutOfRange { .. } => GPUNET_ERANGE,
        _ => GPUNET_EMEMORY,
    }
    StreamError {
        E::Launch(error) => (error,),
        E::Load(error) => (error,),
        E::Memory(error) => (error,),
        E::Limit(StreamLimit::WhileRunning { .. } | StreamLimit::NoStream) => GPUNET_EARGUMENT,
        E::Limit(_) => GPUNET_ELIMIT,
        E::Failed(_) => GPUNET_EFAULTED,
        E::Closed(_) => GPUNET_EGONE,
        E::OtherStream => GPUNET_EOTHERGPU,
        _ => GPUNET_EARGUMENT,
    }
    NetError {
        E::Memory(error) => (error,),
        E::Setting(_) => GPUNET_EARGUMENT,
        E::ControlMemory(ControlMemoryRefused::Lost(_)) => GPUNET_EDOWN,
        E::System { source, .. } => (GPUNET_ESYSTEM, Errno(source.raw_os_error().unwrap_or(0))),
        _ => GPUNET_ESYSTEM,
    }
    DownError {
        E::Gpu(error) => (error,),
        E::Faulted => GPUNET_EFAULTED,
        _ => GPUNET_EDOWN,
    }
    SocketError {
        E::Down(error) => (error,),
        E::Listen { errno, .. } => (GPUNET_ELISTEN, errno),
        E::Call { errno, .. } => (of_socket(errno), errno),
        E::Backlog(_) => GPUNET_EARGUMENT,
        E::Busy => GPUNET_ERUNNING,
        _ => GPUNET_EDOWN,
    }
    KernelError {
        E::DivergentBarrier { .. } | E::DivergentCall { .. } => GPUNET_EDIVERGED,
        E::Deadlock { .. } => GPUNET_EDEADLOCK,
        E::Killed { .. } => GPUNET_EKILLED,
        E::ContextLost { .. } => GPUNET_ECONTEXT,
        E::NoStack { .. } => GPUNET_EMEMORY,
        E::Forked => GPUNET_EFORKED,
        _ => GPUNET_ETRAP,
    }
    WaitError {
        E::Kernel(error) => (error,),
        E::Operation { errno, .. } => (of_socket(errno), errno),
        _ => GPUNET_ETIMEOUT,
    }
}

/// The status of a socket's error: whether a peer, or the way to it, is the reason.
fn of_socket(errno: Errno) -> gpunet_status {
    match errno {
        Errno::ECONNRESET
        | Errno::ECONNREFUSED
        | Errno::ECONNABORTED
        | Errno::EPIPE
        | Errno::ETIMEDOUT
        | Errno::EHOSTUNREACH
        | Errno::ENETUNREACH => GPUNET_EPEER,
        _ => GPUNET_ESOCKET,
    }
}

thread_local! {
    /// The last error of this thread.
    static LAST: RefCell<(CString, i32)> = RefCell::default();
}

/// Keeps an error for `gpunet_last_error`.
fn keep(failure: Failure) -> gpunet_status {
    let sentence = CString::new(failure.sentence.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no use for it.
    let _ = LAST.try_with(|last| last.replace((sentence, failure.errno)));
    failure.status
}

/// Runs what a function of the C ABI does. Nothing unwinds out of it.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> gpunet_status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => GPUNET_OK,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => {
            let words = words_of(&*panic);
            // What a panic carries may panic again when it goes.
            std::mem::forget(panic);
            let sentence = format!("gpunet itself failed ({words}): please report it");
            keep(Failure::new(GPUNET_EINTERNAL, sentence))
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// What went wrong in the last call of this thread that did not return GPUNET_OK: one sentence, with what to
/// do about it where that is known. It stays until the next such call of this thread. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().0.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The error number of Linux of that call (a positive number, as in errno.h), or 0 where it had none.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_last_errno() -> i32 {
    LAST.try_with(|last| last.borrow().1).unwrap_or(0)
}

/// The name of a status, such as "GPUNET_ENULL". Never null.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_status_name(status: gpunet_status) -> *const c_char {
    let name = NAMES.iter().find(|(code, _)| *code == status);
    name.map_or(c"unknown status", |(_, name)| name).as_ptr()
}

/// Whose fault a status is: "nobody", "caller", "peer", "system", "kernel", "gpu" or "gpunet". Never null.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_status_blame(status: gpunet_status) -> *const c_char {
    let whose = match status / 1000 {
        0 => c"nobody",
        1 => c"caller",
        2 => c"peer",
        3 => c"system",
        4 => c"kernel",
        5 => c"gpu",
        _ => c"gpunet",
    };
    whose.as_ptr()
}

/// The version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The version of the C ABI that this library has, for kernels: the major number times 65,536 and the minor
/// number. Images of the same major and of no higher minor number can be loaded.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_c_abi_version() -> u32 {
    let [major, minor] = gpunet_device::c_abi::GPUNET_C_ABI;
    major << 16 | minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_end_at_the_border() {
        let status = guard(|| panic!("planted"));
        assert_eq!(status, GPUNET_EINTERNAL);
        // SAFETY: a C string, by its promise.
        let sentence = unsafe { CStr::from_ptr(gpunet_last_error()) }.to_string_lossy();
        assert_eq!(sentence, "gpunet itself failed (planted): please report it");
    }

    #[test]
    fn codes_have_names_and_groups() {
        for (at, (code, name)) in NAMES.iter().enumerate() {
            assert!(NAMES[..at].iter().all(|(other, _)| other < code), "{name:?}");
        }
        // SAFETY: C strings, by their promise.
        let text = |of: *const c_char| unsafe { CStr::from_ptr(of) }.to_str().unwrap();
        assert_eq!(text(gpunet_status_name(GPUNET_ERANGE)), "GPUNET_ERANGE");
        assert_eq!(text(gpunet_status_name(-1)), "unknown status");
        assert_eq!(text(gpunet_status_blame(GPUNET_EPEER)), "peer");
        assert_eq!(text(gpunet_status_blame(GPUNET_ETRAP)), "kernel");
    }
}
