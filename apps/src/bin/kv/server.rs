//! Makes the net and the listener, runs the kernel, ends it in order.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_apps::gpu::open_with;
use gpunet_apps::stop::Stop;
use gpunet_host::{Gpu, Launch, Module, Net, Shape, Task, TransportChoice, WaitError};
use gpunet_kv::{State, Store, kv_server};
use gpunet_serve::{Memory, Options as ServeOptions};
use gpunet_terminal::output::say;

use crate::options::Options;
use crate::statistics;
use crate::tables::Tables;

static MODULE: Module = gpunet_host::include_module!("gpunet_kv");

/// How long the kernel may take to end after clients had their time for last answers.
const LEAVE: Duration = Duration::from_secs(3);

/// A number that clients cannot guess: the standard library's hashers are seeded by the system.
fn draw_word() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A net with room for so many clients.
fn make_net(options: &Options, gpu: &Gpu, blocks: u32, connections: u32) -> Result<Net, Failure> {
    let ring = u64::from(options.ring);
    // A poller's ring has room for an event of every socket.
    let poller = (u64::from(connections + blocks) * 16).next_power_of_two().max(4096);
    let rings = u64::from(connections + 64) * 2 * ring + u64::from(blocks + 1) * 2 * poller;
    Ok(Net::builder(gpu)
        .sockets(connections + blocks + 16)
        .ring(options.ring)
        .ring_memory(rings)
        .proxy_threads(options.proxy_threads)
        .transport(TransportChoice::Tcp)
        .unaccepted(64)
        .build()?)
}

/// Runs the server until it is interrupted.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let (gpu, _) = open_with("kv", &options.gpu, &MODULE)?;
    let (blocks, threads) = (options.blocks(&gpu), options.threads(&gpu));
    let connections = options.connections(&gpu);
    let tables = Tables::new(&gpu, options.memory(&gpu), connections)?;
    let net = make_net(options, &gpu, blocks, connections)?;
    let listening = gpunet_host::ListenOptions::new().backlog(4096);
    let (listener, address) = net.listen_with(options.listen, listening)?;
    let serve = ServeOptions {
        idle_timeout_ns: options.idle_timeout.as_nanos() as u64,
        request_timeout_ns: options.request_timeout.as_nanos() as u64,
        drain_ns: options.drain.as_nanos() as u64,
        ..ServeOptions::DEFAULT
    };
    let arguments = (
        listener,
        Memory::of::<State>(&tables.memory, tables.connections),
        serve,
        Store::launch_arg(
            &tables.entries,
            &tables.heads,
            &tables.locks,
            &tables.words,
            draw_word(),
            draw_word(),
            u32::from(address.port()),
            0_u32,
        ),
    );
    let shape = Shape::new(blocks, threads).shared_memory(options.staging);
    let begin = Instant::now();
    let launch = net.launch(kv_server, shape, arguments)?;
    say(&format!(
        "kv: serving at {address} on {}: {blocks} blocks of {threads} threads",
        gpu.info()
    ));
    while !stop.is_set() && !launch.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = end(&tables, &launch, stop.is_set(), options.drain);
    statistics::print(&tables, &net, begin.elapsed(), options.json)?;
    ended
}

/// Ends the kernel, in order if that is possible.
fn end(tables: &Tables, launch: &Launch, asked: bool, drain: Duration) -> Result<(), Failure> {
    if asked {
        tables.stop()?;
        match launch.wait_timeout(drain.saturating_add(LEAVE)) {
            Err(WaitError::StillRunning { .. }) => launch.abort(),
            outcome => return Ok(outcome?),
        }
    }
    launch.wait_timeout(LEAVE)?;
    let errno = tables.ended_by()?;
    match (asked, errno) {
        (true, _) => Err(Failure::lost("the kernel did not end in order, and was stopped")),
        (false, errno) => Err(Failure::lost(format!("the server ended by itself: {errno}"))),
    }
}
