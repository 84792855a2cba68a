//! What the headers define as inline functions: calls through a context's table of operations.
//!
//! Each returns an error number where the table lacks the operation.

use core::ffi::c_int;

use super::types::{ibv_context, ibv_cq, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_wc};

/// Posts a chain of work to a send queue. Returns an error number, or 0.
///
/// # Safety
/// The queue pair lives, and the chain is a valid one whose inline data can be read.
pub unsafe fn ibv_post_send(
    qp: *mut ibv_qp,
    work: *mut ibv_send_wr,
    refused: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a living queue pair names its context, which lives longer.
    let operation = unsafe { (*context_of(qp)).ops.post_send };
    // SAFETY: the caller's promises.
    operation.map_or(libc::EOPNOTSUPP, |post| unsafe { post(qp, work, refused) })
}

/// Posts a chain of receives. Returns an error number, or 0.
///
/// # Safety
/// The queue pair lives, and the chain is a valid one.
pub unsafe fn ibv_post_recv(
    qp: *mut ibv_qp,
    work: *mut ibv_recv_wr,
    refused: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a living queue pair names its context, which lives longer.
    let operation = unsafe { (*context_of(qp)).ops.post_recv };
    // SAFETY: the caller's promises.
    operation.map_or(libc::EOPNOTSUPP, |post| unsafe { post(qp, work, refused) })
}

/// Takes up to `room` completions. Returns how many, or a negative number.
///
/// # Safety
/// The queue lives, and `completions` has room for that many.
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, room: c_int, completions: *mut ibv_wc) -> c_int {
    // SAFETY: a living queue names its context, which lives longer.
    let operation = unsafe { (*(*cq).context).ops.poll_cq };
    // SAFETY: the caller's promises.
    operation.map_or(-libc::EOPNOTSUPP, |poll| unsafe { poll(cq, room, completions) })
}

/// Asks for one event at the next completion. Returns an error number, or 0.
///
/// # Safety
/// The queue lives.
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: bool) -> c_int {
    // SAFETY: a living queue names its context, which lives longer.
    let operation = unsafe { (*(*cq).context).ops.req_notify_cq };
    // SAFETY: the caller's promises.
    operation.map_or(libc::EOPNOTSUPP, |arm| unsafe { arm(cq, c_int::from(solicited_only)) })
}

unsafe fn context_of(qp: *mut ibv_qp) -> *mut ibv_context {
    // SAFETY: the queue pair lives, as the callers promise.
    unsafe { (*qp).context }
}
