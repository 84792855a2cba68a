//! The C ABI of device functions, for kernels in other languages on the emulated GPU.
//!
//! On a GPU such kernels call the functions of the device library directly. Here a function first has the
//! threads of its group compare arguments, under the names that Rust's calls have, and then does the same.
//! Where in the kernel's source a call is made is set just before ([`emulated_site`]). All functions
//! unwind: the emulated GPU ends kernels so. Where a kernel cannot be unwound (`emulated::forbid_unwinding`),
//! panics end here. A crate of the workspace exports them with
//! [`export_c_abi!`](crate::export_c_abi).

#![allow(unsafe_code, reason = "addresses that a kernel in another language gives")]

use core::ffi::{CStr, c_char, c_void};

use crate::abi::address::SocketAddr;
use crate::calls::PollFd;
use crate::group::{AnyGroup, GroupKind};
use crate::library::{OWN_NAME, SEND_DIRECTION, symbols};
use crate::poller::Event;
use crate::simt::emulated::{self, Place, Shuffle, guarded};
use crate::simt::{self, Scope};

/// Major and minor number of the C ABI; see docs/reference/c-abi.md.
pub const GPUNET_C_ABI: [u32; 2] = [1, 0];

/// Compares a call between the threads of a group. Takes the place that was announced also where there is
/// nobody to compare with: it is the call's.
fn agree(group: u32, call: &'static str, arguments: &[u64]) {
    let site = emulated::announced();
    if let Some(scope) = AnyGroup(GroupKind::from_number(group)).scope() {
        emulated::agree_at(scope, call, arguments, site);
    }
}

/// What threads compare of memory to send from: each may have its own copy of the bytes.
fn source(from: *const u8) -> u64 {
    if emulated::is_private(from) { 0 } else { from as u64 }
}

/// A handle and an address, for threads to compare.
///
/// # Safety
/// `address` is valid to read.
unsafe fn with_address(handle: u64, address: *const SocketAddr) -> [u64; 15] {
    // SAFETY: the caller's promise; any bytes are an address.
    let words = unsafe { &*address }.to_words();
    core::array::from_fn(|at| if at == 0 { handle } else { words[at - 1] })
}

/// A call with a net that nobody gave the kernel, all zeros, is an error that says so; a real GPU would fault at
/// address 0. One by a group that there is none of would be a block's there.
fn check_caller(net0: u64, group: u32, call: &str) {
    if net0 == 0 {
        let site = emulated::announced();
        panic!(
            "{call} with a net that is not set, at {site}: pass on the one that the kernel was given, or that of a \
             lease"
        );
    }
    if group > GroupKind::Block as u32 {
        let site = emulated::announced();
        panic!("{call} by group {group}, at {site}: 0 is a thread, 1 a warp, 2 a block");
    }
}

/// Defines the functions: what of their arguments is compared, under which name, and then the library's.
macro_rules! functions {
    ($(#[$doc:meta] $name:ident($($arg:ident: $type:ty),*) as $call:expr, $compared:expr;)*) => { $(
        #[$doc]
        ///
        /// # Safety
        /// `net0` and `net1` are the words of a net that the kernel was given; addresses lead to as much
        /// memory as the numbers beside them say, valid for what the function does there.
        #[allow(clippy::too_many_arguments, reason = "words only, as the function takes them")]
        pub unsafe fn $name(net0: u64, net1: u64, group: u32 $(, $arg: $type)*) -> i64 {
            guarded(|| {
                check_caller(net0, group, $call);
                #[allow(unused_unsafe, reason = "some read what an address leads to")]
                // SAFETY: the caller's promise.
                let compared = unsafe { $compared };
                agree(group, $call, &compared);
                // SAFETY: the caller's promise.
                unsafe { symbols::$name(net0, net1, group $(, $arg)*) }
            })
        }
    )* };
}

functions! {
    /// Makes a socket; its handle.
    socket(domain: i32, kind: i32, protocol: i32)
        as "gsocket", [domain as u64, kind as u64, protocol as u64];
    /// Gives a socket its own address.
    bind(handle: u64, address: *const SocketAddr) as "gbind", with_address(handle, address);
    /// Connects a socket.
    connect(handle: u64, address: *const SocketAddr) as "gconnect", with_address(handle, address);
    /// Makes a socket a listener.
    listen(handle: u64, backlog: i32) as "glisten", [handle, backlog as u64];
    /// The next connection of a listener.
    accept(handle: u64) as "gaccept", [handle];
    /// Sends; for messages of up to 256 bytes.
    send(handle: u64, from: *const u8, length: usize, flags: u32)
        as "gsend", [handle, source(from), length as u64, flags.into()];
    /// Sends a piece of a longer message.
    send_long(handle: u64, from: *const u8, length: usize, flags: u32)
        as "gsend", [handle, source(from), length as u64, flags.into()];
    /// Sends a piece of a message that is longer than every packet.
    send_ring(handle: u64, from: *const u8, length: usize, flags: u32)
        as "gsend", [handle, source(from), length as u64, flags.into()];
    /// Receives.
    receive(handle: u64, to: *mut u8, length: usize, flags: u32)
        as "grecv", [handle, to as u64, length as u64, flags.into()];
    /// Copies bytes, each thread its share.
    copy(from: *const u8, to: *mut u8, length: usize)
        as "copy", [source(from), to as u64, length as u64];
    /// Ends one direction or both.
    shutdown(handle: u64, how: i32) as "gshutdown", [handle, how as u64];
    /// Closes.
    close(handle: u64) as "gclose", [handle];
    /// Stores an address of the socket at every thread's `to`.
    name(handle: u64, which: u32, to: *mut SocketAddr)
        as if which == OWN_NAME { "ggetsockname" } else { "ggetpeername" }, [handle];
    /// Sets an option.
    set_option(handle: u64, option: u32, value: u64)
        as "gsetsockopt", [handle, option.into(), value];
    /// Reads an option.
    get_option(handle: u64, option: u32) as "ggetsockopt", [handle, option.into()];
    /// Waits until one of some sockets is ready.
    poll(sockets: *mut PollFd, count: usize, timeout_ms: i64)
        as "gpoll", [sockets as u64, count as u64, timeout_ms as u64];
    /// Makes a poller; its handle.
    poller() as "Poller::new", [];
    /// Has a poller watch a socket.
    watch(poller: u64, socket: u64, events: u64, token: u64)
        as "Poller::add", [poller, socket, events, token];
    /// Waits for events of a poller.
    wait(poller: u64, events: *mut Event, capacity: usize, timeout_ns: u64)
        as "Poller::wait", [poller, events as u64, capacity as u64, timeout_ns];
    /// Opens a slice of a ring.
    open_slice(handle: u64, direction: u32, least: usize, ring: *mut u64)
        as if direction == SEND_DIRECTION { "reserve" } else { "peek" }, [handle, least as u64];
    /// Closes a slice of a ring.
    close_slice(handle: u64, direction: u32, used: usize)
        as if direction == SEND_DIRECTION { "commit" } else { "consume" }, [handle, used as u64];
    /// The host's time.
    time() as "ggettimeofday", [];
    /// Prints a line on the host.
    print(text: *const u8, length: usize) as "gprint", [length as u64];
}

/// The next call of this thread is made there.
///
/// # Safety
/// `file` is null or a C string.
pub unsafe fn emulated_site(file: *const c_char, line: u32) {
    if file.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let file = unsafe { CStr::from_ptr(file) };
    emulated::announce(&file.to_string_lossy(), line);
}

/// Writes the calling thread's place.
///
/// # Safety
/// `place` is valid to write.
pub unsafe fn emulated_position(place: *mut Place) {
    // SAFETY: the caller's promise.
    unsafe { place.write(emulated::place()) };
}

/// Waits for all threads of the group: its warp (1) or its block (2).
pub fn emulated_barrier(group: u32) {
    let site = emulated::announced();
    if let Some(scope) = AnyGroup(GroupKind::from_number(group)).scope() {
        guarded(|| emulated::barrier_at(scope, site));
    }
}

/// Memory of the block for the shared variable that `key` names, the same for all its threads; of no key,
/// the launch-sized shared memory, whatever `bytes` says.
pub fn emulated_shared(key: *const c_void, bytes: u64) -> *mut c_void {
    let _ = emulated::announced();
    if key.is_null() {
        return simt::shared_memory().as_ptr().cast();
    }
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    guarded(|| emulated::shared_variable(key.addr(), bytes)).cast()
}

/// Gives each lane of the warp another one's value: `how` 0 by number, 1 up, 2 down, 3 xor.
pub fn emulated_shuffle(mask: u32, value: u64, how: u32, by: u32, width: u32) -> u64 {
    let how = match how {
        0 => Shuffle::Index,
        1 => Shuffle::Up,
        2 => Shuffle::Down,
        _ => Shuffle::Xor,
    };
    let site = emulated::announced();
    guarded(|| emulated::shuffle(mask, value, how, by, width, site))
}

/// The lanes of the warp that said yes.
pub fn emulated_ballot(mask: u32, yes: i32) -> u32 {
    let site = emulated::announced();
    guarded(|| emulated::ballot(mask, yes != 0, site))
}

/// The lanes that the warp has.
pub fn emulated_lanes() -> u32 {
    emulated::present()
}

/// How many threads of the block said yes, once all have come.
pub fn emulated_count(yes: i32) -> u32 {
    let site = emulated::announced();
    guarded(|| count(yes, site))
}

fn count(yes: i32, site: emulated::Site) -> u32 {
    // Each warp's lanes by themselves, then the warps, through words that only this call uses.
    let mine = emulated::ballot(u32::MAX, yes != 0, site).count_ones();
    let counts: *mut u32 =
        emulated::shared_variable((&raw const COUNTS).addr(), size_of::<u32>() * 32).cast();
    // Behind it nobody reads the last counts.
    emulated::barrier_at(Scope::Block, site);
    let simt::Position { thread, threads, .. } = simt::position();
    if thread.is_multiple_of(simt::WARP) {
        // SAFETY: a word for each of the block's warps, of which there are 32 at most.
        unsafe { counts.add((thread / simt::WARP) as usize).write(mine) };
    }
    emulated::barrier_at(Scope::Block, site);
    let warps = threads.div_ceil(simt::WARP) as usize;
    // SAFETY: as above; nobody writes before the next barrier.
    (0..warps).map(|warp| unsafe { counts.add(warp).read() }).sum()
}

/// What names the words of [`emulated_count`].
static COUNTS: u8 = 0;

/// A turn of a wait loop of the kernel's own: lets other threads run.
pub fn emulated_pause() {
    // Other threads run now, whose calls are made elsewhere.
    let _ = emulated::announced();
    guarded(simt::pause);
}

/// Nanoseconds on a monotonic clock.
pub fn emulated_clock() -> u64 {
    simt::now_ns()
}

/// Ends the kernel with a fault.
///
/// # Safety
/// `message` is null or a C string.
///
/// # Panics
/// Always: that is how.
pub unsafe fn emulated_trap(message: *const c_char) -> ! {
    let site = emulated::announced();
    guarded(|| {
        if message.is_null() {
            panic!("a trap at {site}");
        }
        // SAFETY: the caller's promise.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        panic!("{message} at {site}");
    })
}

/// Exports the functions of this module under their C names: `gpunet_` and the name. Once in a program or
/// library, by the crate that makes it.
#[doc(hidden)]
#[macro_export]
macro_rules! export_c_abi {
    () => {
        $crate::export_c_abi! { @calls
            gpunet_socket socket(domain: i32, kind: i32, protocol: i32);
            gpunet_bind bind(handle: u64, address: *const $crate::SocketAddr);
            gpunet_connect connect(handle: u64, address: *const $crate::SocketAddr);
            gpunet_listen listen(handle: u64, backlog: i32);
            gpunet_accept accept(handle: u64);
            gpunet_send send(handle: u64, from: *const u8, length: usize, flags: u32);
            gpunet_send_long send_long(handle: u64, from: *const u8, length: usize, flags: u32);
            gpunet_send_ring send_ring(handle: u64, from: *const u8, length: usize, flags: u32);
            gpunet_receive receive(handle: u64, to: *mut u8, length: usize, flags: u32);
            gpunet_copy copy(from: *const u8, to: *mut u8, length: usize);
            gpunet_shutdown shutdown(handle: u64, how: i32);
            gpunet_close close(handle: u64);
            gpunet_name name(handle: u64, which: u32, to: *mut $crate::SocketAddr);
            gpunet_set_option set_option(handle: u64, option: u32, value: u64);
            gpunet_get_option get_option(handle: u64, option: u32);
            gpunet_poll poll(sockets: *mut $crate::calls::PollFd, count: usize, timeout_ms: i64);
            gpunet_poller poller();
            gpunet_watch watch(poller: u64, socket: u64, events: u64, token: u64);
            gpunet_wait wait(poller: u64, events: *mut $crate::Event, capacity: usize, timeout_ns: u64);
            gpunet_open_slice open_slice(handle: u64, direction: u32, least: usize, ring: *mut u64);
            gpunet_close_slice close_slice(handle: u64, direction: u32, used: usize);
            gpunet_time time();
            gpunet_print print(text: *const u8, length: usize);
        }
        $crate::export_c_abi! { @others
            gpunet_emulated_site emulated_site(file: *const core::ffi::c_char, line: u32) -> ();
            gpunet_emulated_position
                emulated_position(place: *mut $crate::simt::emulated::Place) -> ();
            gpunet_emulated_barrier emulated_barrier(group: u32) -> ();
            gpunet_emulated_shared emulated_shared(key: *const core::ffi::c_void, bytes: u64)
                -> *mut core::ffi::c_void;
            gpunet_emulated_shuffle
                emulated_shuffle(mask: u32, value: u64, how: u32, by: u32, width: u32) -> u64;
            gpunet_emulated_ballot emulated_ballot(mask: u32, yes: i32) -> u32;
            gpunet_emulated_lanes emulated_lanes() -> u32;
            gpunet_emulated_count emulated_count(yes: i32) -> u32;
            gpunet_emulated_pause emulated_pause() -> ();
            gpunet_emulated_clock emulated_clock() -> u64;
            gpunet_emulated_trap emulated_trap(message: *const core::ffi::c_char) -> !;
        }
    };
    (@calls $($symbol:ident $name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// A device function of the C ABI, on the emulated GPU.
        ///
        /// # Safety
        /// As the C ABI has it: words of a net, and addresses with as much memory as is said.
        #[allow(unsafe_code, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol(
            net0: u64, net1: u64, group: u32 $(, $arg: $type)*
        ) -> i64 {
            // SAFETY: the caller's promise.
            unsafe { $crate::c_abi::$name(net0, net1, group $(, $arg)*) }
        }
    )* };
    (@others $($symbol:ident $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        /// What a thread of the emulated GPU can do.
        ///
        /// # Safety
        /// As the C ABI has it: addresses lead to what they name, and a kernel calls it.
        #[allow(unsafe_code, unused_unsafe, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $symbol($($arg: $type),*) -> $result {
            // SAFETY: the caller's promise.
            unsafe { $crate::c_abi::$name($($arg),*) }
        }
    )* };
}
