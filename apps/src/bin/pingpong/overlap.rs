//! How much of an exchange is hidden behind a kernel that computes on another stream.

use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_host::{GpuKind, Handle, Net, Shape, StreamQueue, Task};
use gpunet_kernels::exchange::busy;

use crate::modes::Rounds;
use crate::report::Overlap;

/// Times that each is measured; the median counts.
const TIMES: usize = 9;

/// Measures the exchange of `rounds` alone, a kernel that computes as long alone, and both at once.
pub(crate) fn measure(
    net: &Net,
    rounds: &Rounds<'_>,
    socket: Handle,
    timeout: Duration,
) -> Result<Overlap, Failure> {
    let computing = net.queue(&net.gpu().stream()?)?;
    let batch = rounds.batch(socket)?;
    let exchange = || -> Result<(), Failure> {
        let done = rounds.queue.post(&batch)?;
        Ok(done.wait_timeout(timeout)?)
    };
    exchange()?;
    let exchange_time = median(&mut || exchange())?;
    let length = exchange_time.as_nanos() as u64;
    compute(net, &computing, 0, timeout)?;
    let compute_time = median(&mut || compute(net, &computing, length, timeout))?;
    let both_time = median(&mut || {
        start(net, &computing, length)?;
        exchange()?;
        finish(&computing, timeout)
    })?;
    let hidden = (compute_time + exchange_time).saturating_sub(both_time);
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    Ok(Overlap {
        bytes: rounds.bytes(),
        compute_us: us(compute_time),
        exchange_us: us(exchange_time),
        both_us: us(both_time),
        overlap: hidden.as_secs_f64() / compute_time.min(exchange_time).as_secs_f64(),
    })
}

fn median(run: &mut dyn FnMut() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begin = Instant::now();
        run()?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times[TIMES / 2])
}

/// A kernel on all multiprocessors.
fn start(net: &Net, queue: &StreamQueue, ns: u64) -> Result<(), Failure> {
    let info = net.gpu().info();
    let shape = match info.kind {
        GpuKind::Emulated => Shape::new(1, 32),
        _ => Shape::new(info.multiprocessors, 1024),
    };
    Ok(queue.launch(busy, shape, (ns,))?)
}

fn finish(queue: &StreamQueue, timeout: Duration) -> Result<(), Failure> {
    match queue.stream().wait(timeout) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::lost("the kernel is not done in time")),
        Err(error) => Err(Failure::lost(error.to_string())),
    }
}

fn compute(net: &Net, queue: &StreamQueue, ns: u64, timeout: Duration) -> Result<(), Failure> {
    start(net, queue, ns)?;
    finish(queue, timeout)
}
