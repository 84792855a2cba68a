//! Nets: sockets that the program makes, hands over and takes back; what the proxy counts.

use std::ffi::c_char;
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::{LazyLock, PoisonError};

use gpunet_device::SocketAddr as gpunet_address;
use gpunet_host::{Handle, ListenOptions, Net, Statistics};
use serde_json::Value;

use crate::address;
use crate::gpu::gpunet_host_gpu;
use crate::handle::{self, opaque};
use crate::options::gpunet_host_net_options;
use crate::status::{Failure, GPUNET_EARGUMENT, GPUNET_ESYSTEM, gpunet_status, guard};
use crate::text::{lend, store, store_if_wanted, store_text, text};

/// A net: memory, proxy threads, and the kernels that run on it.
pub struct gpunet_host_net(());
opaque!(gpunet_host_net, 2, Net);

/// Makes a net on a GPU and starts its proxy threads. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_create(
    gpu: *const gpunet_host_gpu,
    options: *const gpunet_host_net_options,
    net: *mut *mut gpunet_host_net,
) -> gpunet_status {
    let make = || {
        let mut builder = Net::builder(&*handle::get(gpu)?);
        if let Some(options) = handle::optional(options)? {
            builder = options.lock().unwrap_or_else(PoisonError::into_inner).apply(builder);
        }
        Ok(builder.build()?)
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(net, make) })
}

/// Listens at an address (as gpunet_address_parse takes it), for kernels to accept from. `socket` gets what a
/// kernel names it by, `bound` the address with the port that the system chose; `bound` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_listen(
    net: *const gpunet_host_net,
    address: *const c_char,
    socket: *mut u64,
    bound: *mut gpunet_address,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { listen(net, address, ListenOptions::new(), socket, bound) })
}

/// The same with options: `backlog` 1 to 4096, or 0 for 512; `reuse_port` 1 to share the port with others;
/// `only_v6` 0 or 1, or negative for what the system has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_listen_with(
    net: *const gpunet_host_net,
    address: *const c_char,
    backlog: u32,
    reuse_port: i32,
    only_v6: i32,
    socket: *mut u64,
    bound: *mut gpunet_address,
) -> gpunet_status {
    let mut options = ListenOptions::new().reuse_port(reuse_port != 0);
    if backlog != 0 {
        options = options.backlog(backlog);
    }
    if only_v6 >= 0 {
        options = options.only_v6(only_v6 != 0);
    }
    // SAFETY: the caller's promise.
    guard(|| unsafe { listen(net, address, options, socket, bound) })
}

unsafe fn listen(
    net: *const gpunet_host_net,
    address: *const c_char,
    options: ListenOptions,
    socket: *mut u64,
    bound: *mut gpunet_address,
) -> Result<(), Failure> {
    let net = handle::get(net)?;
    if socket.is_null() {
        return Err(Failure::null("the address to store the socket at"));
    }
    // SAFETY: the caller's promise.
    let address = address::parse(unsafe { text(address, "the address") }?)?;
    let (handle, chosen) = net.listen_with(address, options)?;
    // SAFETY: the caller's promise.
    unsafe {
        store_if_wanted(bound, chosen);
        store(socket, handle.0)
    }
}

/// Hands a connected or listening stream socket of the program over to kernels. It takes the descriptor, which
/// the program uses no more, unless the call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_hand_over(
    net: *const gpunet_host_net,
    descriptor: i32,
    socket: *mut u64,
) -> gpunet_status {
    guard(|| {
        let net = handle::get(net)?;
        if socket.is_null() {
            return Err(Failure::null("the address to store the socket at"));
        }
        if descriptor < 0 {
            return Err(Failure::argument(format!("{descriptor} is no file descriptor")));
        }
        // SAFETY: only to make a copy of it, so that the program has its own where this fails.
        let copy = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned();
        let copy: OwnedFd = copy.map_err(|error| Failure {
            // A number that is no descriptor is the caller's mistake, as a negative one is.
            status: match error.raw_os_error() {
                Some(libc::EBADF) => GPUNET_EARGUMENT,
                _ => GPUNET_ESYSTEM,
            },
            errno: error.raw_os_error().unwrap_or(0),
            sentence: format!("the descriptor {descriptor} cannot be copied: {error}"),
        })?;
        let handle = net.hand_over(copy)?;
        // SAFETY: the program has given it away.
        unsafe { libc::close(descriptor) };
        // SAFETY: the caller's promise.
        unsafe { store(socket, handle.0) }
    })
}

/// Takes a socket back from kernels, once none runs on the net and no queue is open: `descriptor` gets the
/// system's socket, non-blocking; `unread` and `length` bytes that had arrived and that no kernel has read, to
/// be freed with gpunet_free (null and 0 where there are none).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_take_back(
    net: *const gpunet_host_net,
    socket: u64,
    descriptor: *mut i32,
    unread: *mut *mut u8,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        let net = handle::get(net)?;
        if descriptor.is_null() || unread.is_null() || length.is_null() {
            return Err(Failure::null("the address to store the descriptor or the bytes at"));
        }
        let released = net.take_back(Handle(socket))?;
        let bytes = lend(&released.unread)?;
        // SAFETY: the caller's promise.
        unsafe {
            store(unread, bytes)?;
            store(length, released.unread.len())?;
            store(descriptor, released.socket.into_raw_fd())
        }
    })
}

/// Closes a socket, whoever made it and whoever uses it: what is unsent is sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_close_socket(
    net: *const gpunet_host_net,
    socket: u64,
) -> gpunet_status {
    guard(|| Ok(handle::get(net)?.close(Handle(socket))?))
}

/// The names of all counters, in the order in which the statistics have them.
static COUNTERS: LazyLock<Vec<std::ffi::CString>> = LazyLock::new(|| {
    let names = numbers(&Statistics::default()).into_iter();
    names.filter_map(|(name, _)| std::ffi::CString::new(name).ok()).collect()
});

/// All counters, by their names.
fn numbers(statistics: &Statistics) -> Vec<(String, u64)> {
    let Ok(Value::Object(all)) = serde_json::to_value(statistics) else { return Vec::new() };
    all.into_iter().filter_map(|(name, value)| Some((name, value.as_u64()?))).collect()
}

/// The name of a counter, from 0; null behind the last.
#[unsafe(no_mangle)]
pub extern "C" fn gpunet_statistic_name(index: u32) -> *const c_char {
    let mut name = std::ptr::null();
    guard(|| {
        name = COUNTERS.get(index as usize).map_or(std::ptr::null(), |name| name.as_ptr());
        Ok(())
    });
    name
}

/// A counter of a net: "received_bytes", "sent_bytes", "accepted", "sockets" (open now) and so on, as
/// gpunet_statistic_name lists them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_statistic(
    net: *const gpunet_host_net,
    name: *const c_char,
    value: *mut u64,
) -> gpunet_status {
    guard(|| {
        let net = handle::get(net)?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "the counter's name") }?;
        let all = numbers(&net.statistics());
        let Some((_, found)) = all.iter().find(|(of, _)| of == name) else {
            let known: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
            let sentence = format!("a net has no counter '{name}': {}", known.join(", "));
            return Err(Failure::argument(sentence));
        };
        // SAFETY: the caller's promise.
        unsafe { store(value, *found) }
    })
}

/// All statistics of a net as JSON text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_statistics(
    net: *const gpunet_host_net,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        let json = serde_json::to_string(&handle::get(net)?.statistics());
        let json = json.map_err(|error| Failure::argument(error.to_string()))?;
        // SAFETY: the caller's promise.
        unsafe { store_text(&json, to, capacity, length) }
    })
}

/// Describes every socket of a net as JSON text, for a kernel that seems stuck: a list with a line for each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_dump(
    net: *const gpunet_host_net,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        let sockets = handle::get(net)?.dump()?;
        let lines: Result<Vec<_>, _> = sockets.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| Failure::argument(error.to_string()))?;
        let json = format!("[{}]", lines.join(",\n"));
        // SAFETY: the caller's promise.
        unsafe { store_text(&json, to, capacity, length) }
    })
}

/// Stops all kernels of a net: their waits return ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_abort(net: *const gpunet_host_net) -> gpunet_status {
    guard(|| handle::get(net).map(|net| net.abort()))
}

/// Ends a net: stops its kernels, sends what is unsent, closes all sockets and ends its threads, within some
/// seconds. Launches, queues and leases of it can still be asked how they ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_free(net: *mut gpunet_host_net) -> gpunet_status {
    guard(|| handle::free(net))
}
