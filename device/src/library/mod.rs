//! The device library: every call of a kernel is one function here, compiled once.
//!
//! For a GPU this crate is compiled in two ways. With the feature `library` it is the library
//! itself: an image that defines these functions and holds all that is behind them. Without it, as
//! kernels depend on it, it declares them, and the driver's linker joins the two when a module is
//! loaded. So a kernel contains calls, not copies. On the host both are one, and calls go the same
//! way.
//!
//! A function takes the net as two words, the kind of the group, and numbers or addresses behind them,
//! and returns 64 bits: a count or a handle, or a negative error number. All threads of the group call
//! it with the same arguments and get the same result. Closures, generic buffers,
//! `Result` and drop guards stay with the callers ([`calls`](crate::calls) and the types), and so
//! does the comparison of arguments on the emulated GPU, which names their source lines. Functions
//! unwind, because the emulated GPU ends kernels so.
//!
//! Why it is so: decision 4 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "exported names, and calls of functions that another image defines")]

#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod data;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod long;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod more;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod option;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod poll;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod poller;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod ragged;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod slice;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod socket;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod system;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
mod word;

use crate::abi::bits::{P2P_PACKET_BYTES, PACKET_BYTES};
use crate::abi::net::Net;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
use crate::channel::Plan;
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
use crate::group::AnyGroup;
use crate::group::Group;

/// Which address `name` gives.
pub(crate) const OWN_NAME: u32 = 0;
/// The peer's.
pub(crate) const PEER_NAME: u32 = 1;

/// Which ring `open_slice` and `close_slice` are about: received bytes.
pub(crate) const RECEIVE_DIRECTION: u32 = 0;
/// Space to send from.
pub(crate) const SEND_DIRECTION: u32 = 1;

/// Declares or defines the functions of the library, and gives each a generic one to call it by.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $how:ident $module:ident;)*) => {
        /// The functions by the names that images know them under. The kind of the group is an argument:
        /// three functions of each would be three times the machine code.
        pub(crate) mod symbols {
            $(
                #[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
                #[cfg_attr(
                    target_arch = "nvptx64",
                    unsafe(export_name = concat!("gpunet_", stringify!($name)))
                )]
                #[allow(clippy::too_many_arguments, reason = "words only, as the caller has them")]
                pub(crate) unsafe extern "C-unwind" fn $name(
                    records: u64, shape: u64, kind: u32 $(, $arg: $type)*
                ) -> i64 {
                    let group = crate::group::AnyGroup(crate::group::GroupKind::from_number(kind));
                    // SAFETY: the words of a net, by the caller's promise, and so are the addresses.
                    let result = unsafe {
                        let net = crate::abi::net::Net::from_words([records, shape]);
                        crate::library::$module::$name(net, group $(, $arg)*)
                    };
                    functions!(@leave $how group);
                    result
                }

                #[cfg(all(target_arch = "nvptx64", not(feature = "library")))]
                unsafe extern "C-unwind" {
                    #[link_name = concat!("gpunet_", stringify!($name))]
                    pub(super) fn $name(records: u64, shape: u64, kind: u32 $(, $arg: $type)*) -> i64;
                }
            )*
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Addresses lead to as much memory as the numbers beside them say, valid for what the
            /// function does there.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "words only, as the function takes them")]
            pub(crate) unsafe fn $name<G: Group>(net: Net, _group: G $(, $arg: $type)*) -> i64 {
                let [records, shape] = net.to_words();
                // SAFETY: the caller's promise; the words are those of a net.
                unsafe { symbols::$name(records, shape, G::KIND as u32 $(, $arg)*) }
            }
        )*
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    (@leave in $group:ident) => { crate::simt::leave($group.scope()); };
    // It brings them together itself.
    (@leave fast_in $group:ident) => {};
}

functions! {
    /// Makes a socket; its handle.
    socket(domain: i32, kind: i32, protocol: i32) in socket;
    /// Gives a socket the address that stands at `address`, of which the leader's counts.
    bind(handle: u64, address: *const crate::SocketAddr) in socket;
    /// Makes it a listener.
    listen(handle: u64, backlog: i32) in socket;
    /// The next connection of a listener.
    accept(handle: u64) in socket;
    /// Connects to the address that stands at `address`, of which the leader's counts.
    connect(handle: u64, address: *const crate::SocketAddr) in socket;
    /// Ends one direction or both.
    shutdown(handle: u64, how: i32) in socket;
    /// Closes.
    close(handle: u64) in socket;
    /// Stores an address of the socket ([`OWN_NAME`], [`PEER_NAME`]) at every thread's `to`.
    name(handle: u64, which: u32, to: *mut crate::SocketAddr) in socket;
    /// Sends at most `length` bytes; how many.
    send(handle: u64, from: *const u8, length: usize, flags: u32) fast_in data;
    /// The same, for messages of more than 256 bytes: a function of its own, so that neither saves the
    /// registers of the other. It sends a piece, and a kernel calls it again for the rest.
    send_long(handle: u64, from: *const u8, length: usize, flags: u32) fast_in long;
    /// The same, for messages that are longer than every packet: by the ring alone.
    send_ring(handle: u64, from: *const u8, length: usize, flags: u32) fast_in long;
    /// Receives at most `length` bytes.
    receive(handle: u64, to: *mut u8, length: usize, flags: u32) fast_in data;
    /// Copies `length` bytes from one buffer to another, each thread its share.
    copy(from: *const u8, to: *mut u8, length: usize) in data;
    /// Opens a slice of a ring ([`RECEIVE_DIRECTION`], [`SEND_DIRECTION`]) of at least `least` bytes: its span,
    /// 0 at the end of the stream; where the ring lies is stored at every thread's `ring`.
    open_slice(handle: u64, direction: u32, least: usize, ring: *mut u64) in slice;
    /// Publishes that `used` bytes of a slice were used, and closes it.
    close_slice(handle: u64, direction: u32, used: usize) in slice;
    /// Sets an option.
    set_option(handle: u64, option: u32, value: u64) in option;
    /// Reads an option.
    get_option(handle: u64, option: u32) in option;
    /// Waits until one of `count` sockets is ready.
    poll(sockets: *mut crate::abi::call::PollFd, count: usize, timeout_ms: i64) in poll;
    /// Makes a poller; its handle.
    poller() in poller;
    /// Has a poller watch a socket, or with no events no longer.
    watch(poller: u64, socket: u64, events: u64, token: u64) in poller;
    /// Waits for events of a poller and takes up to `capacity` of them.
    wait(poller: u64, events: *mut crate::Event, capacity: usize, timeout_ns: u64) in poller;
    /// Waits until the word at `address` is what `how` and `value` say ([`crate::op::how`]); 0 ns: in any
    /// time.
    wait_word(address: *mut u8, how: u32, value: u64, timeout_ns: u64) in word;
    /// Receives at most `length` bytes from a socket that a poller watches under `token`, while the poller
    /// has no event of another; EAGAIN, or EALREADY where its only event is this socket's and reports
    /// nothing that was not received.
    receive_beside(
        handle: u64, to: *mut u8, length: usize, poller: u64, token: u64
    ) fast_in poller;
    /// The host's time.
    time() in system;
    /// Prints a line on the host, of which the leader's counts.
    print(text: *const u8, length: usize) in system;
}

/// The leader plans; all threads get the plan.
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
#[inline(always)]
fn planned(group: AnyGroup, plan: impl FnOnce() -> Plan) -> [u64; 2] {
    // What other threads did with their buffers comes before.
    group.barrier();
    let words = if group.is_leader() { plan().words() } else { Plan::END.words() };
    group.share(words)
}

/// The leader does it; all threads get the result.
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
#[inline(always)]
fn led(group: AnyGroup, leader: impl FnOnce() -> i64) -> i64 {
    let result = if group.is_leader() { leader() } else { 0 };
    group.broadcast(result as u64) as i64
}

/// A result as functions return it.
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
#[inline(always)]
fn number(result: Result<u64, crate::Errno>) -> i64 {
    result.map_or_else(crate::Errno::negative, |value| value as i64)
}

/// Sends a piece of a message by the function that is short for it. A kernel calls again for the rest.
///
/// # Safety
/// As [`send`].
#[inline(always)]
pub(crate) unsafe fn send_piece<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        if length <= PACKET_BYTES {
            send(net, group, handle, from, length, flags)
        } else if length <= P2P_PACKET_BYTES {
            send_long(net, group, handle, from, length, flags)
        } else {
            send_ring(net, group, handle, from, length, flags)
        }
    }
}
