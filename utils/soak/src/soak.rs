//! The soak as a whole: nets and rounds until the time is over, rests in between.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use gpunet_host::{Gpu, Net};
use gpunet_sockets::{By, Listener};
use gpunet_support::pattern::Draw;
use gpunet_support::testing::hang_limit;
use gpunet_terminal::output::{say, show_log};
use gpunet_terminal::progress::Progress;

use crate::check::Fault;
use crate::options::{Options, Plant};
use crate::plan::{Load, Plan, margin};
use crate::round::{Round, loopback};
use crate::tally::{Heading, Tally};
use crate::watch::Holdings;
use crate::watchdog::{self, Watchdog};

/// The warm-up is this part of the time, and at most so long.
const WARM_UP_PART: u32 = 5;
const WARM_UP: Duration = Duration::from_secs(60);
/// It has so many rounds at least, unless they take longer than this: where a busy machine gets
/// through one in the time of a short soak, what the next ones need first would seem a leak.
const WARM_UP_ROUNDS: u64 = 8;
fn warm_up_rounds_limit() -> Duration {
    hang_limit(Duration::from_secs(3))
}

/// How long a call that is not on a connection may wait: a group that answers waits to accept for as
/// long as a round takes, and what hangs there is found by the watchdog before.
fn accept_limit() -> Duration {
    hang_limit(Duration::from_secs(9))
}

/// How long a closed socket may take to send what is unsent.
const LINGER: Duration = Duration::from_secs(5);
/// How long slots and rings may take to be free once all is closed.
fn freeing_limit() -> Duration {
    LINGER + hang_limit(Duration::from_millis(200))
}

/// Rounds on one net, at most.
const ROUNDS_A_NET: u64 = 12;

/// Runs it; whether nothing was lost, hung or leaked.
pub(crate) fn run(options: &Options) -> Result<bool> {
    show_log("off");
    let gpu = Gpu::open(options.gpu.clone())?;
    let module = gpunet_host::include_module!("gpunet_e2e_kernels");
    gpunet_apps::gpu::load("soak", &gpu, &module).context("loading the kernels")?;
    let seed = options.seed.unwrap_or_else(clock_seed);
    let heading = Arc::new(Heading {
        gpu: gpu.info().kind.to_string(),
        gpu_name: gpu.info().name.clone(),
        seed,
        minutes: options.minutes,
    });
    say(&format!("GPU: {}; seed {seed}", gpu.info()));
    let progress = Progress::of_time(options.time(), options.quiet || options.json);
    let tally = Arc::new(Tally::new(progress));
    tally.step("the first round".to_owned());
    let watchdog = Watchdog::start(&tally, &heading, options.time(), options.json)
        .context("starting the watchdog")?;
    let soak = Soak {
        load: Load::for_gpu(gpu.info().kind),
        gpu,
        seed,
        plant: options.plant,
        only: options.round,
        time: options.time(),
        v6: Listener::bind(&loopback(Ipv6Addr::LOCALHOST), By::Tcp).is_ok(),
        folder: Folder::new()?,
        tally: Arc::clone(&tally),
    };
    let ran = soak.rounds();
    if let Err(error) = ran {
        // The figures so far are worth having all the same.
        tally.fault(Fault::Failed(format!("{error:#}").replace('\n', " ")));
    }
    drop(watchdog);
    watchdog::report(&tally, &heading, options.json);
    Ok(tally.counts().is_good())
}

/// Another number each time.
fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64) % 1_000_000_007
}

struct Soak {
    gpu: Gpu,
    load: Load,
    seed: u64,
    plant: Option<Plant>,
    /// The one round that is repeated.
    only: Option<u64>,
    time: Duration,
    v6: bool,
    folder: Folder,
    tally: Arc<Tally>,
}

impl Soak {
    fn rounds(&self) -> Result<()> {
        let mut number = 0;
        let mut planted = false;
        let mut most_resident = 0;
        loop {
            let draw = &mut Draw::new(self.seed, !number);
            let mut net = Some(self.net(draw)?);
            let mut free = Free::of(net.as_ref());
            for _ in 0..draw.between(1, ROUNDS_A_NET) {
                let warm = self.tally.after_warm_up().is_some();
                let plants = warm && !planted;
                planted |= plants;
                let plan = self.plan(number, plants);
                number += 1;
                let round = Round { plan: &plan, tally: &self.tally, folder: &self.folder.0 };
                round.run(&mut net)?;
                if plants && self.plant == Some(Plant::Leak) {
                    self.leak(net.as_ref())?;
                }
                let Some(net) = &net else { break };
                self.check_free(net, &plan, &mut free);
                let over =
                    if warm { self.tally.elapsed() > self.time } else { self.is_warm(number) };
                if over {
                    break;
                }
            }
            self.tally.step(format!("dropping the net after round {number}"));
            drop(net);
            self.tally.step(format!("a rest after round {number}"));
            let before = self.tally.after_warm_up();
            let mut held = Holdings::settled(before)?;
            self.tally.rested(held);
            if held.children > 0 {
                // Now: they have been waited for, and will not be found again.
                let what = format!("{} child processes that nobody waited for", held.children);
                self.tally.fault(Fault::Leak(what));
            }
            let Some(before) = before else {
                // Of several rests the largest: what one kind of round needs, the allocator keeps.
                most_resident = held.resident.max(most_resident);
                held.resident = most_resident;
                if self.is_warm(number) {
                    self.tally.warmed_up(held);
                }
                continue;
            };
            if self.tally.elapsed() > self.time {
                for grown in held.growth_since(&before) {
                    self.tally.fault(Fault::Leak(grown));
                }
                return Ok(());
            }
        }
    }

    /// Whether the warm-up is over after so many rounds.
    fn is_warm(&self, rounds: u64) -> bool {
        let elapsed = self.tally.elapsed();
        elapsed > (self.time / WARM_UP_PART).min(WARM_UP)
            && (rounds >= WARM_UP_ROUNDS || elapsed > warm_up_rounds_limit())
    }

    fn plan(&self, number: u64, plants: bool) -> Plan {
        let first = number == 0;
        let number = self.only.unwrap_or(number);
        match self.plant {
            Some(Plant::Lost) if plants => {
                let mut plan = Plan::plain(self.seed, number, self.load);
                for exchange in &mut plan.exchanges {
                    exchange.omits = Some(exchange.totals().0 / 2);
                }
                plan
            }
            Some(Plant::Hung) if plants => {
                let mut plan = Plan::plain(self.seed, number, self.load);
                plan.stall = margin() + Duration::from_secs(1);
                plan
            }
            Some(Plant::Leak) if plants => Plan::plain(self.seed, number, self.load),
            _ if first => Plan::widest(self.seed, self.load),
            _ => Plan::draw(self.seed, number, self.load, self.v6),
        }
    }

    /// A net with settings that change from one to the next.
    fn net(&self, draw: &mut Draw) -> Result<Net> {
        self.tally.step("making a net".to_owned());
        let sockets = 4 * self.load.connections as u32 + 16;
        let net = Net::builder(&self.gpu)
            .sockets(sockets)
            .ring(4096 << draw.between(0, 4))
            // For all of them with the largest rings that anybody asks for.
            .ring_memory(u64::from(sockets) * 2 * (64 << 10))
            .proxy_threads(draw.pick([1, 1, 2]))
            .timeout(accept_limit())
            .linger(LINGER)
            .build()
            .context("making a net")?;
        self.tally.count(|counts| counts.nets += 1);
        Ok(net)
    }

    /// All slots and rings of the net are free again.
    fn check_free(&self, net: &Net, plan: &Plan, free: &mut Free) {
        self.tally.step(format!("{}: slots and rings becoming free", plan.describe()));
        let begin = Instant::now();
        loop {
            let now = Free::of(Some(net));
            if now.sockets <= free.sockets && now.ring_bytes >= free.ring_bytes {
                return;
            }
            if begin.elapsed() > freeing_limit() {
                self.tally.fault(Fault::Leak(format!(
                    "{}: {} sockets of the net in use and {} bytes of rings free, {} and {} before",
                    plan.describe(),
                    now.sockets,
                    now.ring_bytes,
                    free.sockets,
                    free.ring_bytes
                )));
                // Reported once.
                *free = now;
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The planted leak: a descriptor that nobody closes, a socket that nobody takes back.
    fn leak(&self, net: Option<&Net>) -> Result<()> {
        let kept = std::fs::File::open("/dev/null").context("opening a file")?;
        std::mem::forget(kept);
        if let Some(net) = net {
            net.listen(gpunet_device::SocketAddr::v4([127, 0, 0, 1], 0)).context("listening")?;
        }
        Ok(())
    }
}

/// What a net has free.
#[derive(Clone, Copy, Default)]
struct Free {
    sockets: u64,
    ring_bytes: u64,
}

impl Free {
    fn of(net: Option<&Net>) -> Self {
        let Some(net) = net else { return Self::default() };
        let statistics = net.statistics();
        Self { sockets: statistics.sockets, ring_bytes: statistics.free_ring_bytes }
    }
}

/// A folder for UNIX sockets, removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("gpunet-soak-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
