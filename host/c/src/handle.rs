//! Handles: what a C program names objects by.
//!
//! A handle looks like a pointer to an opaque struct, and is a number: the object's kind and a count that is
//! never used twice. So a handle that was freed, or is of another kind, is an error and not a crash; and an
//! object that one thread frees while another is in a call lives until that call has returned.
//!
//! A process that was forked has none of the parent's threads, but shares memory and sockets with it. It may
//! not use what the parent opened, and frees nothing: a call is refused before any lock is taken that a thread
//! of the parent may have held.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use gpu_usermap::ProcessId;

use crate::status::{Failure, GPUNET_EFORKED, GPUNET_EHANDLE};

/// Bits of a handle that say the kind.
const KIND_BITS: usize = 5;

/// The kinds of objects, by the numbers that handles have.
const KINDS: [&str; 13] = [
    "gpu",
    "net_options",
    "net",
    "buffer",
    "flags",
    "image",
    "launch",
    "stream",
    "queue",
    "batch",
    "completions",
    "graph",
    "lease",
];

/// What a handle of this type stands for: `Self` is the opaque struct, as the header has it.
pub(crate) trait Opaque: Sized + 'static {
    /// What is behind it.
    type Object: Send + Sync + 'static;
    const KIND: usize;
    fn table() -> &'static Table<Self>;
}

/// Declares what is behind an opaque struct.
macro_rules! opaque {
    ($name:ident, $kind:literal, $object:ty) => {
        impl crate::handle::Opaque for $name {
            type Object = $object;
            const KIND: usize = $kind;
            fn table() -> &'static crate::handle::Table<Self> {
                static TABLE: crate::handle::Table<$name> = crate::handle::Table::new();
                &TABLE
            }
        }
    };
}
pub(crate) use opaque;

/// The objects of one kind.
pub(crate) struct Table<H: Opaque> {
    objects: RwLock<BTreeMap<usize, Arc<H::Object>>>,
    handles: PhantomData<fn() -> H>,
}

impl<H: Opaque> Table<H> {
    pub(crate) const fn new() -> Self {
        Self { objects: RwLock::new(BTreeMap::new()), handles: PhantomData }
    }
}

/// Counts objects of all kinds.
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// The process that made the first object.
static PROCESS: OnceLock<ProcessId> = OnceLock::new();

fn name(kind: usize) -> Option<&'static str> {
    KINDS.get(kind).copied()
}

/// Whether this process was forked from the one that has the objects.
fn is_forked() -> bool {
    PROCESS.get().is_some_and(|owner| !owner.is_current())
}

fn check_process() -> Result<(), Failure> {
    if is_forked() {
        let sentence = "this process was forked from one that uses gpunet: start a new program \
                        (exec), or open GPUs in the child alone";
        return Err(Failure::new(GPUNET_EFORKED, sentence));
    }
    Ok(())
}

/// Puts an object behind a new handle, at `to`.
///
/// # Safety
/// `to` is null or valid to write.
pub(crate) unsafe fn create<H: Opaque>(
    to: *mut *mut H,
    make: impl FnOnce() -> Result<H::Object, Failure>,
) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::null("the address to store the handle at"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(std::ptr::null_mut()) };
    check_process()?;
    let object = Arc::new(make()?);
    PROCESS.get_or_init(ProcessId::current);
    let number = COUNT.fetch_add(1, Ordering::Relaxed) << KIND_BITS | H::KIND;
    let objects = H::table().objects.write();
    objects.unwrap_or_else(PoisonError::into_inner).insert(number, object);
    // SAFETY: as above.
    unsafe { to.write(std::ptr::without_provenance_mut(number)) };
    Ok(())
}

/// What a handle stands for.
pub(crate) fn get<H: Opaque>(handle: *const H) -> Result<Arc<H::Object>, Failure> {
    let number = handle.addr();
    if number == 0 {
        return Err(Failure::null(&of(H::KIND)));
    }
    check_process()?;
    let objects = H::table().objects.read().unwrap_or_else(PoisonError::into_inner);
    objects.get(&number).cloned().ok_or_else(|| unknown::<H>(number))
}

/// What a handle stands for, if it is not null.
pub(crate) fn optional<H: Opaque>(handle: *const H) -> Result<Option<Arc<H::Object>>, Failure> {
    if handle.is_null() { Ok(None) } else { get(handle).map(Some) }
}

/// Makes a handle stand for nothing. Null is nothing already, and a forked process frees nothing.
pub(crate) fn free<H: Opaque>(handle: *mut H) -> Result<(), Failure> {
    let number = handle.addr();
    if number == 0 || is_forked() {
        return Ok(());
    }
    let object = {
        let mut objects = H::table().objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&number)
    };
    // Without the lock: a net takes a while to go.
    object.map(drop).ok_or_else(|| unknown::<H>(number))
}

fn of(kind: usize) -> String {
    format!("the gpunet_host_{}", name(kind).unwrap_or("object"))
}

fn unknown<H: Opaque>(number: usize) -> Failure {
    let (kind, count) = (number & ((1 << KIND_BITS) - 1), number >> KIND_BITS);
    let wanted = of(H::KIND);
    let sentence = match name(kind) {
        Some(name) if count < COUNT.load(Ordering::Relaxed) && kind != H::KIND => {
            format!("{wanted} is a gpunet_host_{name}: pass a handle of the right type")
        }
        Some(_) if count != 0 && count < COUNT.load(Ordering::Relaxed) => {
            format!("{wanted} was freed already")
        }
        _ => format!("{wanted} is no handle that gpunet gave"),
    };
    Failure::new(GPUNET_EHANDLE, sentence)
}
