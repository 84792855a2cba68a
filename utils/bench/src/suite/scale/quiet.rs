//! Nobody talks: what the net's threads take of a core while kernels wait, and how long the first round
//! trip takes after a pause.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::Result;
use gpunet_host::NetBuilder;

use super::super::{Latency, Pairs};
use super::server::{Load, Passive, Server};
use super::{Scale, Setting, Wanted, economy};

/// How long nobody has talked before a round trip, at least.
const QUIET_FOR: Duration = Duration::from_millis(100);
/// How long nobody has talked when processor time begins to count.
const WARM_UP: Duration = Duration::from_millis(300);
/// Longer than any of this takes.
const WITHOUT_SLEEP: Duration = Duration::from_secs(3600);
/// The longest first round trip by default settings, us, and by those that spare the processor.
const DEFAULT_WAKE: f64 = 100.0;
const ECONOMY_WAKE: f64 = 1000.0;
/// The most that threads may take of a core with those, in percent.
const ECONOMY_SHARE: f64 = 3.0;

/// What a quiet net comes to.
struct Quiet {
    /// Percent of a core.
    share: f64,
    wake: Latency,
}

impl Scale<'_> {
    pub(super) fn quiet(&mut self) -> Result<()> {
        let options = self.options;
        let (spin, sleep) = (options.economy_spin, options.economy_sleep);
        let economy_name = format!("economy (spin {spin} us, sleep {sleep} us)");
        let (any, at_most) = (Wanted::Nothing, Wanted::AtMost);
        for setting in &options.settings {
            if !self.report.has_time(&format!("quiet: {setting:?}").to_lowercase()) {
                continue;
            }
            match setting {
                Setting::Cpu => self.quiet_cpu()?,
                Setting::Default => {
                    self.settings("default settings", any, at_most(DEFAULT_WAKE), |net| net)?;
                }
                Setting::Awake => {
                    self.settings("a proxy that never sleeps", any, any, |net| {
                        net.spin(WITHOUT_SLEEP)
                    })?;
                }
                Setting::Economy => {
                    let wanted = [at_most(ECONOMY_SHARE), at_most(ECONOMY_WAKE)];
                    self.settings(&economy_name, wanted[0], wanted[1], |net| {
                        economy(options, net)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Servers on the CPU.
    fn quiet_cpu(&mut self) -> Result<()> {
        for (server, polls) in [("sleeps", false), ("polls", true)] {
            let cpu = self.wake_cpu(polls)?;
            for (what, figure) in [("p50", cpu.p50), ("p99", cpu.p99)] {
                let mut pairs = Pairs::EMPTY;
                pairs.push(f64::NAN, figure);
                let what = format!("nobody talks, a CPU server that {server}: wake-up, {what}");
                self.row(&what, 1, "us", &pairs, Wanted::Nothing);
            }
        }
        Ok(())
    }

    fn wakes(&self) -> usize {
        self.options.wakes.unwrap_or(if self.options.common.quick { 5 } else { 100 }).max(1)
    }

    /// The first round trip after a pause with a thread that sleeps in its receive, or polls: what the
    /// machine itself takes.
    fn wake_cpu(&mut self, polls: bool) -> Result<Latency> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        // It ends with its connection, or with this program.
        std::thread::spawn(move || -> std::io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(polls)?;
            let mut bytes = vec![0; 1 << 16];
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return Ok(()),
                    Ok(got) => stream.write_all(&bytes[..got])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                    Err(error) => return Err(error),
                }
            }
        });
        let group = self.clients.open(port, 1, 0)?;
        self.clients.opened(1)?;
        let (bytes, wakes) = (self.batch(1).bytes, self.wakes());
        let wake = self.clients.wake(group, bytes, wakes, QUIET_FOR)?;
        self.clients.close(group)?;
        Ok(wake)
    }

    /// With one connection, and with all of them.
    fn settings(
        &mut self,
        name: &str,
        share: Wanted,
        wake: Wanted,
        settings: impl Fn(NetBuilder) -> NetBuilder,
    ) -> Result<()> {
        let count = self.connections;
        let alone = self.measure_quiet(0, &settings)?;
        let measured = self.measure_quiet(count - 1, &settings)?;
        for (what, unit, figures, wanted) in [
            ("proxy and supervisor", "% of a core", (alone.share, measured.share), share),
            ("wake-up, p50", "us", (alone.wake.p50, measured.wake.p50), Wanted::Nothing),
            ("wake-up, p99", "us", (alone.wake.p99, measured.wake.p99), wake),
        ] {
            let mut pairs = Pairs::EMPTY;
            pairs.push(figures.0, figures.1);
            self.row(&format!("nobody talks, {name}: {what}"), count, unit, &pairs, wanted);
        }
        Ok(())
    }

    fn measure_quiet(
        &mut self,
        passive: usize,
        settings: impl Fn(NetBuilder) -> NetBuilder,
    ) -> Result<Quiet> {
        let (quick, blocks) = (self.options.common.quick, self.blocks);
        let wakes = self.wakes();
        let counted = Duration::from_millis(if quick { 300 } else { 3000 });
        let bytes = self.batch(1).bytes;
        let load = Load { active: 1, passive, state: Passive::Watched, blocks };
        let server = Server::new(self.gpu, &mut self.clients, load, settings)?;
        let quiet = server.with_kernel(&mut self.clients, |clients, group| {
            std::thread::sleep(WARM_UP);
            let (before, begun) = (server.threads.run_ns()?, Instant::now());
            std::thread::sleep(counted);
            let ran = server.threads.run_ns()? - before;
            let share = 100.0 * ran as f64 / begun.elapsed().as_nanos() as f64;
            Ok(Quiet { share, wake: clients.wake(group, bytes, wakes, QUIET_FOR)? })
        })?;
        server.end(&mut self.clients)?;
        Ok(quiet)
    }
}
