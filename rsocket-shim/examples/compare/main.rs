//! Our streams beside stock rsocket's, each against itself, over one RDMA device and host memory.
//!
//! For transfers of several sizes it says, for each transfer and both ends together, how many work
//! requests, immediates and completions there were, how often the CPU copied each byte, and, for
//! information, how long it took. Buffers and queues have the same sizes on both sides.
//!
//! ```text
//! cargo run --release -p rsocket-shim --example compare -- ADDRESS [--json]
//! ```
//!
//! `ADDRESS` is an IPv4 address of this machine with RDMA. It ends with an error where ours needs
//! more than stock does, or copies a byte.

#![allow(unsafe_code, reason = "counts in the table of a verbs context")]

mod count;
mod sides;

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use count::Counts;
use rsocket_shim::load::Libraries;
use serde_json::json;
use sides::{Ours, Side, Stock};

/// Bytes of a transfer, and how many there are.
const TRANSFERS: [(usize, u32); 4] = [(64, 2000), (4096, 1000), (65_536, 100), (1 << 20, 12)];

/// What the last write and its completion may take.
const LAST_WAY: Duration = Duration::from_millis(50);

/// How transfers follow one another.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// One there, one back, and so on.
    Answered,
    /// One after the other, all in one direction.
    Streamed,
}

/// What was found for one library, one size, one manner.
struct Found {
    library: &'static str,
    manner: Manner,
    size: usize,
    transfers: u32,
    counts: Counts,
    time: Duration,
}

impl Found {
    fn each(&self, count: u64) -> f64 {
        count as f64 / f64::from(self.transfers)
    }

    fn copies(&self) -> f64 {
        self.each(self.counts.copied) / self.size as f64
    }

    fn microseconds(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / f64::from(self.transfers)
    }

    fn manner(&self) -> &'static str {
        match self.manner {
            Manner::Answered => "answered",
            Manner::Streamed => "streamed",
        }
    }

    fn columns(&self) -> [f64; 5] {
        let counts = self.counts;
        [counts.writes, counts.immediates, counts.receives, counts.completions, counts.arms]
            .map(|count| self.each(count))
    }
}

fn transfers(
    [one, other]: [Box<dyn Side>; 2],
    manner: Manner,
    size: usize,
    count: u32,
) -> anyhow::Result<(Counts, Duration)> {
    let act = move |mut side: Box<dyn Side>, first: bool, count: u32| {
        for turn in 0..count {
            let sends = match manner {
                Manner::Answered => (turn % 2 == 0) == first,
                Manner::Streamed => first,
            };
            if sends { side.send(size)? } else { side.receive(size)? }
        }
        side.finish()?;
        anyhow::Ok(side)
    };
    count::watch([one.memory(), other.memory()].concat());
    let run = |one, other, count| {
        let peer = thread::spawn(move || act(other, false, count));
        let one = act(one, true, count)?;
        anyhow::Ok((one, peer.join().expect("a side does not panic")?))
    };
    // The first ones also pay for what a new connection has to say.
    let (mut one, mut other) = run(one, other, count / 4)?;
    settle(&mut *one, &mut *other)?;
    count::take();
    let before = work(&*one, &*other);
    let begun = Instant::now();
    let (mut one, mut other) = run(one, other, count)?;
    let time = begun.elapsed();
    settle(&mut *one, &mut *other)?;
    let counts = count::take();
    if let (Some(before), Some(after)) = (before, work(&*one, &*other)) {
        let said = [0, 1, 2].map(|index| after[index] - before[index]);
        let counted = [counts.writes, counts.immediates, counts.completions];
        ensure!(said == counted, "a stream says {said:?} of its work, {counted:?} were counted");
    }
    let closing = thread::spawn(move || other.close());
    one.close()?;
    closing.join().expect("closing does not panic")?;
    Ok((counts, time))
}

/// Takes what is still under way: a library may leave it for later.
fn settle(one: &mut dyn Side, other: &mut dyn Side) -> anyhow::Result<()> {
    for _ in 0..2 {
        thread::sleep(LAST_WAY);
        one.look()?;
        other.look()?;
    }
    Ok(())
}

/// Writes, immediates and completions of both ends, where the library says.
fn work(one: &dyn Side, other: &dyn Side) -> Option<[u64; 3]> {
    let (one, other) = (one.work()?, other.work()?);
    Some([
        one.writes + other.writes,
        one.immediates + other.immediates,
        one.completions + other.completions,
    ])
}

fn compare(libraries: &'static Libraries, local: SocketAddr) -> anyhow::Result<Vec<Found>> {
    let mut all = Vec::new();
    for manner in [Manner::Answered, Manner::Streamed] {
        for (size, transfers_of_it) in TRANSFERS {
            for library in ["stock", "ours"] {
                let pair = match library {
                    "stock" => Stock::pair(libraries, local, size)?,
                    _ => Ours::pair(libraries, local)?,
                };
                let (counts, time) = transfers(pair, manner, size, transfers_of_it)?;
                all.push(Found { library, manner, size, transfers: transfers_of_it, counts, time });
            }
        }
    }
    Ok(all)
}

fn print_table(all: &[Found]) {
    println!(
        "{:9} {:>8} {:6} {:>8} {:>10} {:>8} {:>11} {:>6} {:>11} {:>12} {:>8}",
        "manner",
        "bytes",
        "",
        "writes",
        "immediates",
        "receives",
        "completions",
        "arms",
        "copies/byte",
        "us/transfer",
        "MB/s"
    );
    for found in all {
        let [writes, immediates, receives, completions, arms] = found.columns();
        println!(
            "{:9} {:>8} {:6} {writes:>8.2} {immediates:>10.2} {receives:>8.2} \
             {completions:>11.2} {arms:>6.2} {:>11.2} {:>12.1} {:>8.2}",
            found.manner(),
            found.size,
            found.library,
            found.copies(),
            found.microseconds(),
            found.size as f64 / found.microseconds(),
        );
    }
}

fn print_json(all: &[Found]) {
    let rows: Vec<_> = all
        .iter()
        .map(|found| {
            let [writes, immediates, receives, completions, arms] = found.columns();
            json!({
                "manner": found.manner(), "bytes": found.size, "library": found.library,
                "transfers": found.transfers, "writes": writes, "immediates": immediates,
                "receives": receives, "completions": completions, "arms": arms,
                "copies_per_byte": found.copies(), "us_per_transfer": found.microseconds(),
            })
        })
        .collect();
    println!("{}", json!(rows));
}

/// Ours may need what stock needs, not more, and copies nothing.
///
/// What a credit stands for, half a queue or half a buffer, may have begun before the transfers that
/// are counted. And in a stream a receiver that finds many messages at one look has to return fewer credits:
/// how many it finds is chance.
fn check(all: &[Found]) -> anyhow::Result<()> {
    const BEGUN_BEFORE: f64 = 4.0;
    const BY_CHANCE: f64 = 0.005;
    for pair in all.chunks_exact(2) {
        let [stock, ours] = pair else { continue };
        let (size, manner, copied) = (ours.size, ours.manner(), ours.counts.copied);
        ensure!(copied == 0, "{size} bytes, {manner}: {copied} of ours were copied");
        let by_chance = if ours.manner == Manner::Streamed { BY_CHANCE } else { 0.0 };
        let names = ["writes", "immediates", "receives", "completions"];
        for (name, (ours_each, stock_each)) in
            names.into_iter().zip(ours.columns().into_iter().zip(stock.columns()))
        {
            let most = stock_each * (1.0 + by_chance) + BEGUN_BEFORE / f64::from(ours.transfers);
            ensure!(
                ours_each <= most,
                "{size} bytes, {manner}: {ours_each} {name} a transfer, stock {stock_each}"
            );
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let as_json = arguments.iter().any(|argument| argument == "--json");
    arguments.retain(|argument| argument != "--json");
    let [address] = arguments.as_slice() else {
        anyhow::bail!("usage: compare ADDRESS [--json]");
    };
    let ip: IpAddr = address.parse().context("not an address")?;
    let libraries = Libraries::load()?;
    count::install(SocketAddr::new(ip, 0))?;
    let all = compare(libraries, SocketAddr::new(ip, 0))?;
    if as_json {
        print_json(&all)
    } else {
        print_table(&all)
    }
    check(&all)
}
