//! One size, mode and time to compute after the other.

use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_host::{GpuKind, Net, StreamQueue};
use gpunet_terminal::output::print;
use gpunet_terminal::progress::Progress;
use gpunet_terminal::quantity::bytes_text;

use crate::modes::{Connection, Rounds};
use crate::options::{Mode, Options};
use crate::report::{Report, Row};
use crate::{cpu_time, overlap, peer};

/// Connections whose rings find room: those that were closed last keep theirs for a moment.
const CONNECTIONS: u64 = 16;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let (gpu, gpu_reason) = gpunet_apps::gpu::open("pingpong", &options.gpu)?;
    // Before kernels run: it loads one.
    let stream = gpu.stream()?;
    // Large messages go in few pieces.
    let ring = if gpu.info().kind == GpuKind::Emulated { 64 << 10 } else { 4 << 20 };
    let memory = u64::from(ring) * 2 * CONNECTIONS * 2;
    let builder = Net::builder(&gpu).sockets(64).ring(ring).ring_memory(memory);
    let net = builder.proxy_threads(options.proxy_threads).build()?;
    let queue = net.queue(&stream)?.timeout(options.timeout);
    let mut report = Report {
        gpu: gpu.info().kind.to_string(),
        gpu_name: gpu.info().name.clone(),
        gpu_reason,
        rounds: Vec::new(),
        overlap: None,
    };
    let sizes = options.sizes(&gpu);
    let steps = sizes.len() * options.compute.len() * options.modes.len();
    let steps = steps + usize::from(options.overlap);
    let progress = Progress::of_steps(steps as u64, options.quiet || options.json);
    for bytes in sizes {
        for compute in &options.compute {
            let compute = Duration::from_micros(*compute);
            let rounds = Rounds::new(&net, &queue, bytes, compute, options.timeout)?;
            for mode in &options.modes {
                progress.begin(format!("{}: {}", mode.name(), bytes_text(bytes as u64)));
                let row = measure(options, &rounds, *mode, bytes, compute)?;
                report.rounds.push(row);
                progress.done(1);
            }
        }
    }
    if options.overlap {
        progress.begin("an exchange beside a kernel");
        let bytes = match gpu.info().kind {
            GpuKind::Emulated => 256 << 10,
            _ => 16 << 20,
        };
        report.overlap = Some(measure_overlap(options, &net, &queue, bytes)?);
    }
    drop(progress);
    match options.json {
        true => {
            let json = serde_json::to_string(&report)
                .map_err(|error| Failure::refused(error.to_string()))?;
            Ok(print(&format!("{json}\n"))?)
        }
        false => Ok(print(&report.table())?),
    }
}

/// A connection to a peer of its own.
fn connect(net: &Net, mode: Mode, bytes: usize, timeout: Duration) -> Result<Connection, Failure> {
    let stream = peer::connect(bytes, timeout)?;
    Ok(match mode {
        Mode::Cpu => Connection::System(stream),
        _ => Connection::Kernel(net.hand_over(stream)?),
    })
}

fn measure(
    options: &Options,
    rounds: &Rounds<'_>,
    mode: Mode,
    bytes: usize,
    compute: Duration,
) -> Result<Row, Failure> {
    let count = options.rounds(rounds.net.gpu(), bytes);
    let mut connection = connect(rounds.net, mode, bytes, options.timeout)?;
    // The first rounds find everything cold.
    rounds.run(mode, &mut connection, count.div_ceil(10).min(100))?;
    let (begin, thread, proxy) = (Instant::now(), cpu_time::of_thread(), cpu_time::of_proxy());
    rounds.run(mode, &mut connection, count)?;
    let elapsed = begin.elapsed();
    let thread = cpu_time::of_thread().saturating_sub(thread);
    let proxy = proxy.zip(cpu_time::of_proxy()).map(|(before, now)| now.saturating_sub(before));
    if let Connection::Kernel(socket) = connection {
        rounds.net.close(socket)?;
    }
    let per_round = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
    Ok(Row {
        bytes,
        compute_us: compute.as_micros() as u64,
        mode,
        rounds: count,
        us_per_round: per_round(elapsed),
        thread_us_per_round: per_round(thread),
        proxy_us_per_round: proxy.map(per_round),
    })
}

fn measure_overlap(
    options: &Options,
    net: &Net,
    queue: &StreamQueue,
    bytes: usize,
) -> Result<crate::report::Overlap, Failure> {
    let rounds = Rounds::new(net, queue, bytes, Duration::ZERO, options.timeout)?;
    let Connection::Kernel(socket) = connect(net, Mode::Stream, bytes, options.timeout)? else {
        return Err(Failure::refused("a connection that kernels do not have"));
    };
    overlap::measure(net, &rounds, socket, options.timeout)
}
