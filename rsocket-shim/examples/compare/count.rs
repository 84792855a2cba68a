//! Counts what a library asks a device to do, in the one place through which all of it goes: the
//! table of operations of the device's context, which all connections of a process share.
//!
//! As both ends are in this process, it is seen here too where bytes come from and where they go.
//! Bytes that do not leave from the memory of the program that sends them were copied by the CPU
//! to where they do, or into the work itself (inline); bytes that do not arrive in the memory of
//! the program that receives them have yet to be copied there.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{mem, ptr};

use anyhow::{Context as _, ensure};
use rsocket_shim::sys::Rdmacm;
use rsocket_shim::sys::types as c;

type PostSend =
    unsafe extern "C" fn(*mut c::ibv_qp, *mut c::ibv_send_wr, *mut *mut c::ibv_send_wr) -> c_int;
type PostReceive =
    unsafe extern "C" fn(*mut c::ibv_qp, *mut c::ibv_recv_wr, *mut *mut c::ibv_recv_wr) -> c_int;
type Poll = unsafe extern "C" fn(*mut c::ibv_cq, c_int, *mut c::ibv_wc) -> c_int;
type Arm = unsafe extern "C" fn(*mut c::ibv_cq, c_int) -> c_int;

/// What the table held before.
struct Original {
    post_send: PostSend,
    post_receive: PostReceive,
    poll: Poll,
    arm: Arm,
}

static ORIGINAL: OnceLock<Original> = OnceLock::new();
static WRITES: AtomicU64 = AtomicU64::new(0);
static IMMEDIATES: AtomicU64 = AtomicU64::new(0);
static RECEIVES: AtomicU64 = AtomicU64::new(0);
static COMPLETIONS: AtomicU64 = AtomicU64::new(0);
static ARMS: AtomicU64 = AtomicU64::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);
/// The programs' memory.
static MEMORY: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

/// What was counted, on both ends together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Work requests that send.
    pub(crate) writes: u64,
    /// Those of them with immediate data.
    pub(crate) immediates: u64,
    /// Work requests that receive.
    pub(crate) receives: u64,
    /// Completions that were taken.
    pub(crate) completions: u64,
    /// Times that a queue was asked to wake its program.
    pub(crate) arms: u64,
    /// Bytes that the CPU copied, once for each copy.
    pub(crate) copied: u64,
}

/// What was counted since this was last asked.
pub(crate) fn take() -> Counts {
    let taken = |counter: &AtomicU64| counter.swap(0, Relaxed);
    Counts {
        writes: taken(&WRITES),
        immediates: taken(&IMMEDIATES),
        receives: taken(&RECEIVES),
        completions: taken(&COMPLETIONS),
        arms: taken(&ARMS),
        copied: taken(&COPIED),
    }
}

/// Says where the programs' memory is from now on.
pub(crate) fn watch(memory: Vec<Range<u64>>) {
    *MEMORY.lock().unwrap_or_else(PoisonError::into_inner) = memory;
}

/// Puts the counting operations into the table of the device that has an address.
pub(crate) fn install(local: SocketAddr) -> anyhow::Result<()> {
    // SAFETY: a library that both ends use anyway; its functions are called as its manual says.
    let cm = unsafe { Rdmacm::new("librdmacm.so.1") }.context("librdmacm")?;
    // Kept for ever, as the counting is.
    let cm: &'static Rdmacm = Box::leak(Box::new(cm));
    let IpAddr::V4(ip) = local.ip() else { anyhow::bail!("give an IPv4 address") };
    let mut id = ptr::null_mut();
    // SAFETY: zeros are an address of no family.
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
    // SAFETY: without a channel the id gets one of its own; the address is read during the call.
    let context = unsafe {
        let made = cm.rdma_create_id(ptr::null_mut(), &raw mut id, ptr::null_mut(), c::RDMA_PS_TCP);
        ensure!(made == 0, "rdma_create_id: {}", std::io::Error::last_os_error());
        let bound = cm.rdma_bind_addr(id, (&raw mut address).cast());
        ensure!(bound == 0, "rdma_bind_addr: {}", std::io::Error::last_os_error());
        (*id).verbs
    };
    ensure!(!context.is_null(), "no RDMA device has the address {local}");
    // SAFETY: the id keeps the context open, and nothing uses the device yet.
    let operations = unsafe { &mut (*context).ops };
    let original = Original {
        post_send: operations.post_send.context("no post_send")?,
        post_receive: operations.post_recv.context("no post_recv")?,
        poll: operations.poll_cq.context("no poll_cq")?,
        arm: operations.req_notify_cq.context("no req_notify_cq")?,
    };
    ensure!(ORIGINAL.set(original).is_ok(), "counted already");
    operations.post_send = Some(post_send);
    operations.post_recv = Some(post_receive);
    operations.poll_cq = Some(poll);
    operations.req_notify_cq = Some(arm);
    Ok(())
}

fn original() -> &'static Original {
    ORIGINAL.get().expect("set before the table was changed")
}

/// Bytes of a write that the CPU copied before it, and will after it.
fn copies(work: &c::ibv_send_wr, memory: &[Range<u64>]) -> u64 {
    let inside = |address| memory.iter().any(|range| range.contains(&address));
    let (mut bytes, mut copied) = (0, 0);
    for index in 0..usize::try_from(work.num_sge).unwrap_or(0) {
        // SAFETY: valid work has so many pieces.
        let piece = unsafe { *work.sg_list.add(index) };
        bytes += u64::from(piece.length);
        if work.send_flags & c::IBV_SEND_INLINE != 0 || !inside(piece.addr) {
            copied += u64::from(piece.length);
        }
    }
    // SAFETY: all work here is RDMA writes.
    let target = unsafe { work.wr.rdma.remote_addr };
    if inside(target) { copied } else { copied + bytes }
}

/// A grant of memory is no data.
fn is_data(work: &c::ibv_send_wr) -> bool {
    // SAFETY: immediate data is there where the operation says so.
    let immediate = u32::from_be(unsafe { work.__bindgen_anon_1.imm_data });
    work.opcode == c::IBV_WR_RDMA_WRITE_WITH_IMM && immediate >> 29 == 0
}

unsafe extern "C" fn post_send(
    qp: *mut c::ibv_qp,
    work: *mut c::ibv_send_wr,
    refused: *mut *mut c::ibv_send_wr,
) -> c_int {
    let memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = work;
    while !next.is_null() {
        // SAFETY: the caller's chain is valid.
        let one = unsafe { &*next };
        WRITES.fetch_add(1, Relaxed);
        IMMEDIATES.fetch_add(u64::from(one.opcode == c::IBV_WR_RDMA_WRITE_WITH_IMM), Relaxed);
        if is_data(one) {
            COPIED.fetch_add(copies(one, &memory), Relaxed);
        }
        next = one.next;
    }
    drop(memory);
    // SAFETY: the caller's promises.
    unsafe { (original().post_send)(qp, work, refused) }
}

unsafe extern "C" fn post_receive(
    qp: *mut c::ibv_qp,
    work: *mut c::ibv_recv_wr,
    refused: *mut *mut c::ibv_recv_wr,
) -> c_int {
    let mut next = work;
    while !next.is_null() {
        RECEIVES.fetch_add(1, Relaxed);
        // SAFETY: the caller's chain is valid.
        next = unsafe { (*next).next };
    }
    // SAFETY: the caller's promises.
    unsafe { (original().post_receive)(qp, work, refused) }
}

unsafe extern "C" fn poll(cq: *mut c::ibv_cq, room: c_int, to: *mut c::ibv_wc) -> c_int {
    // SAFETY: the caller's promises.
    let taken = unsafe { (original().poll)(cq, room, to) };
    COMPLETIONS.fetch_add(u64::try_from(taken).unwrap_or(0), Relaxed);
    taken
}

unsafe extern "C" fn arm(cq: *mut c::ibv_cq, solicited: c_int) -> c_int {
    ARMS.fetch_add(1, Relaxed);
    // SAFETY: the caller's promises.
    unsafe { (original().arm)(cq, solicited) }
}
