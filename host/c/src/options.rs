//! Settings of a net, by name.

use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpunet_host::{
    ControlMemory, KernelError, NetBuilder, Placement, Placements, Policy, TransportChoice,
};

use crate::handle::{self, opaque};
use crate::status::{Failure, gpunet_status, guard};
use crate::text::text;

/// Settings of a net that is yet to be made.
pub struct gpunet_host_net_options(());
opaque!(gpunet_host_net_options, 1, Mutex<Options>);

/// Called for each line that a kernel prints, by a thread of the net's: with `user`, the number of the launch,
/// and the line.
pub type gpunet_on_print =
    Option<unsafe extern "C" fn(user: *mut c_void, launch: u32, line: *const c_char)>;

/// Called when a kernel of the net faults, by a thread of the net's: with `user`, the number of the launch,
/// the kernel's name, and how it ended in one sentence.
pub type gpunet_on_fault = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        launch: u32,
        kernel: *const c_char,
        sentence: *const c_char,
    ),
>;

/// What is passed to a function of the program's. It says what may be done with it there.
#[derive(Clone, Copy)]
struct User(*mut c_void);

// SAFETY: nothing here follows it.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    /// As a whole, for closures.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

type Setting = Box<dyn Fn(NetBuilder) -> NetBuilder + Send + Sync>;

/// What was set, in order.
#[derive(Default)]
pub struct Options {
    settings: Vec<Setting>,
    policy: Policy,
}

impl Options {
    /// With these, a net is built.
    pub(crate) fn apply(&self, mut builder: NetBuilder) -> NetBuilder {
        for setting in &self.settings {
            builder = setting(builder);
        }
        builder.policy(self.policy.clone())
    }

    fn set(&mut self, setting: impl Fn(NetBuilder) -> NetBuilder + Send + Sync + 'static) {
        self.settings.push(Box::new(setting));
    }
}

const NUMBERS: &[&str] = &[
    "sockets",
    "reserved",
    "unaccepted",
    "ring",
    "ring_memory",
    "proxy_threads",
    "request_slots",
    "timeout_ns",
    "linger_ns",
    "heartbeat_timeout_ns",
    "spin_ns",
    "idle_sleep_ns",
    "max_sockets",
    "max_in_flight",
    "max_rate",
];
const TEXTS: &[&str] = &[
    "transport",
    "placements",
    "control_memory",
    "policy",
    "allow_connect",
    "deny_connect",
    "allow_bind",
    "deny_bind",
];

/// An error that lists what is known, and says where the name belongs if it is of the other kind.
fn unknown(name: &str, known: &[&str], others: &[&str], other: &str) -> Failure {
    if others.contains(&name) {
        return Failure::argument(format!("the option '{name}' is {other}"));
    }
    Failure::argument(format!("a net has no option '{name}': {}", known.join(", ")))
}

fn set_number(options: &mut Options, name: &str, value: u64) -> Result<(), Failure> {
    let small = || {
        u32::try_from(value)
            .map_err(|_| Failure::argument(format!("the option '{name}' is at most {}", u32::MAX)))
    };
    let time = Duration::from_nanos(value);
    match name {
        "sockets" => options.set({
            let value = small()?;
            move |net| net.sockets(value)
        }),
        "reserved" => options.set({
            let value = small()?;
            move |net| net.reserved(value)
        }),
        "unaccepted" => options.set({
            let value = small()?;
            move |net| net.unaccepted(value)
        }),
        "ring" => options.set({
            let value = small()?;
            move |net| net.ring(value)
        }),
        "ring_memory" => options.set(move |net| net.ring_memory(value)),
        "proxy_threads" => options.set({
            let value = small()?;
            move |net| net.proxy_threads(value)
        }),
        "request_slots" => options.set({
            let value = small()?;
            move |net| net.request_slots(value)
        }),
        "timeout_ns" => options.set(move |net| net.timeout(time)),
        "linger_ns" => options.set(move |net| net.linger(time)),
        "heartbeat_timeout_ns" => options.set(move |net| net.heartbeat_timeout(time)),
        "spin_ns" => options.set(move |net| net.spin(time)),
        "idle_sleep_ns" => options.set(move |net| net.idle_sleep(time)),
        "max_sockets" => options.policy = options.policy.clone().max_sockets(small()?),
        "max_in_flight" => options.policy = options.policy.clone().max_in_flight(value),
        "max_rate" => options.policy = options.policy.clone().max_rate(value),
        _ => return Err(unknown(name, NUMBERS, TEXTS, "a text: gpunet_net_options_set_text")),
    }
    Ok(())
}

fn set_text(options: &mut Options, name: &str, value: &str) -> Result<(), Failure> {
    let wrong =
        |known: &str| Failure::argument(format!("the option '{name}' has no '{value}': {known}"));
    let rule = || value.parse().map_err(|error| Failure::argument(format!("{name}: {error}")));
    let policy = options.policy.clone();
    match name {
        "transport" => {
            let choice = match value {
                "auto" => TransportChoice::Auto,
                "tcp" => TransportChoice::Tcp,
                "rdma" => TransportChoice::Rdma,
                "local" | "p2p" => TransportChoice::Local,
                _ => return Err(wrong("auto, tcp, rdma, local")),
            };
            options.set(move |net| net.transport(choice));
        }
        "placements" => {
            let mut sum = 0;
            for word in value.split(',').map(str::trim) {
                let named = Placement::ALL.into_iter().find(|one| one.name() == word);
                let one = named.ok_or_else(|| wrong("some of dma-buf, peer memory, bounce"))?;
                sum |= Placements::only(one).number();
            }
            let placements = Placements::from_number(sum).ok_or_else(|| wrong("one at least"))?;
            options.set(move |net| net.placements(placements));
        }
        "control_memory" => {
            let place = match value {
                "auto" => ControlMemory::Auto,
                "host" => ControlMemory::Host,
                "gpu" => ControlMemory::Gpu,
                _ => return Err(wrong("auto, host, gpu")),
            };
            options.set(move |net| net.control_memory(place));
        }
        "policy" => {
            options.policy = match value {
                "open" => Policy::open(),
                "closed" => Policy::closed(),
                _ => return Err(wrong("open, closed; set it before rules and limits")),
            }
        }
        "allow_connect" => options.policy = policy.allow_connect(rule()?),
        "deny_connect" => options.policy = policy.deny_connect(rule()?),
        "allow_bind" => options.policy = policy.allow_bind(rule()?),
        "deny_bind" => options.policy = policy.deny_bind(rule()?),
        _ => return Err(unknown(name, TEXTS, NUMBERS, "a number: gpunet_net_options_set")),
    }
    Ok(())
}

fn with(
    options: *const gpunet_host_net_options,
    change: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let options = handle::get(options)?;
    change(&mut options.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes options: as a net has them where nothing is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_create(
    options: *mut *mut gpunet_host_net_options,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { handle::create(options, || Ok(Mutex::default())) })
}

/// Sets a number. "sockets" that can be open at once (256); "reserved" ones that peers cannot take;
/// "unaccepted" connections of a listener (16); "ring", bytes of each (65,536); "ring_memory", bytes of all;
/// "proxy_threads" (1); "request_slots" of each (64); "timeout_ns" of calls (0: none); "linger_ns" (30 s);
/// "heartbeat_timeout_ns" (10 s); "spin_ns" and "idle_sleep_ns" of proxy threads; limits of the policy:
/// "max_sockets", "max_in_flight" bytes, "max_rate" in bytes a second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_set(
    options: *mut gpunet_host_net_options,
    name: *const c_char,
    value: u64,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let name = text(name, "the option's name")?;
        with(options, |options| set_number(options, name, value))
    })
}

/// Sets a text. "transport": auto, tcp, rdma or local; "placements" of RDMA rings: some of "dma-buf,peer
/// memory,bounce"; "control_memory": auto, host or gpu; "policy": open or closed, and then any number of
/// rules: "allow_connect", "deny_connect", "allow_bind", "deny_bind", such as "10.0.0.0/8:8000-8999" or
/// "unix:/run/app/...".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_set_text(
    options: *mut gpunet_host_net_options,
    name: *const c_char,
    value: *const c_char,
) -> gpunet_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let name = text(name, "the option's name")?;
        let value = text(value, "the option's value")?;
        with(options, |options| set_text(options, name, value))
    })
}

/// Has lines that kernels print go to a function in place of standard output. `user` is passed to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_on_print(
    options: *mut gpunet_host_net_options,
    function: gpunet_on_print,
    user: *mut c_void,
) -> gpunet_status {
    let user = User(user);
    guard(|| {
        let function = function.ok_or_else(|| Failure::null("the function"))?;
        with(options, |options| {
            options.set(move |net| {
                net.on_print(move |launch, line| {
                    let line = CString::new(line.replace('\0', " ")).unwrap_or_default();
                    // SAFETY: what the caller of `gpunet_net_options_on_print` has promised.
                    unsafe { function(user.pointer(), launch, line.as_ptr()) };
                })
            });
            Ok(())
        })
    })
}

/// Has a function called for kernels that fault. `user` is passed to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_on_fault(
    options: *mut gpunet_host_net_options,
    function: gpunet_on_fault,
    user: *mut c_void,
) -> gpunet_status {
    let user = User(user);
    guard(|| {
        let function = function.ok_or_else(|| Failure::null("the function"))?;
        with(options, |options| {
            options.set(move |net| {
                net.on_fault(move |launch, kernel, error: &KernelError| {
                    let of = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
                    let (kernel, sentence) = (of(kernel), of(&error.to_string()));
                    // SAFETY: what the caller of `gpunet_net_options_on_fault` has promised.
                    unsafe {
                        function(user.pointer(), launch, kernel.as_ptr(), sentence.as_ptr());
                    }
                })
            });
            Ok(())
        })
    })
}

/// Frees options. Nets that were made with them are not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_net_options_free(
    options: *mut gpunet_host_net_options,
) -> gpunet_status {
    guard(|| handle::free(options))
}
