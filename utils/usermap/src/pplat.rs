//! `pplat`: the CPU stores a number in a mapped word, a kernel sees it and stores it in host memory,
//! the CPU sees that.

#![expect(unsafe_code, reason = "gives a kernel the addresses of two words")]

use std::ptr;
use std::time::{Duration, Instant};

use gpu_usermap::{Backend, Choice, Mapper};
use gpunet_apps::failure::Failure;
use gpunet_device::Shared;
use gpunet_host::{Net, Shape, Task};
use gpunet_kernels::pingpong::pong;
use serde_json::json;

use crate::bench::{Bench, Mapped, lost, refused};
use crate::options::PingOptions;
use crate::report::Report;
use crate::statistics::Times;

/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Round trips before the measured ones.
const WARM_UP: u64 = 100;
/// Bytes mapped for one word: no other lies beside it.
const ROOM: usize = 4096;

/// `pplat`.
pub(crate) fn run(options: &PingOptions) -> Result<Report, Failure> {
    let bench = Bench::open(&options.common)?;
    let net = Net::builder(&bench.gpu).sockets(1).build()?;
    let mapping = bench.allocate(ROOM)?;
    let columns = ["word_in", "round_trips", "median_us", "min_us", "p99_us"];
    let mut report = Report::new("pplat", bench.facts(&mapping), &columns);
    let host = host_word(&bench)?;
    let ways = [Some(&mapping), (mapping.backend() != Backend::Host).then_some(&host)];
    for word in ways.into_iter().flatten() {
        let times = ping_pong(&bench, &net, word, options.iterations)?;
        report.row([
            json!(word.backend().to_string()),
            json!(options.iterations),
            json!(times.median()),
            json!(times.minimum()),
            json!(times.p99()),
        ]);
    }
    Ok(report)
}

fn host_word(bench: &Bench) -> Result<Mapped, Failure> {
    let mapper = Mapper::new().choice(Choice::Only(Backend::Host));
    mapper.allocate(&bench.gpu, ROOM).map_err(|error| refused(&error))
}

fn ping_pong(bench: &Bench, net: &Net, to: &Mapped, count: u32) -> Result<Times, Failure> {
    let from = host_word(bench)?;
    let ping = to.view().and_then(|view| view.place::<u64>(0)).map_err(lost)?;
    let answer = from.view().and_then(|view| view.place::<u64>(0)).map_err(lost)?;
    ping.store_release(0);
    let rounds = WARM_UP + u64::from(count);
    let timeout = TIMEOUT.as_nanos() as u64;
    let arguments = (shared(to), shared(&from), rounds, timeout);
    let kernel = net.launch(pong, Shape::new(1, 1), arguments)?;
    let mut samples = Vec::with_capacity(count as usize);
    for round in 1..=rounds {
        let start = Instant::now();
        ping.store_release(round);
        // Loads of the answer cost nothing; the clock is looked at now and then.
        let mut looks = 0_u32;
        while answer.load_acquire() != round {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(1024) {
                if start.elapsed() > TIMEOUT {
                    let text = format!("the kernel did not answer round {round} within 5 s");
                    return Err(Failure::lost(text));
                }
                if kernel.is_finished() && answer.load_acquire() != round {
                    kernel.wait()?;
                    return Err(Failure::lost(format!("the kernel left in round {round}")));
                }
            }
            std::hint::spin_loop();
        }
        if round > WARM_UP {
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    kernel.wait()?;
    Ok(Times::of(samples))
}

/// The mapping's first word, for a kernel.
fn shared(mapping: &Mapped) -> Shared<u64> {
    let address = ptr::with_exposed_provenance_mut(mapping.device_address() as usize);
    // SAFETY: the mapping has ROOM zeroed bytes, aligned to a page. It outlives the kernel, or the
    // kernel leaves when its time-out ends: gpunet-host gives memory back once no kernel runs.
    unsafe { Shared::from_raw(address, 1) }
}
