//! A client that behaves well: while others do their worst, its requests are answered in time. What they
//! leave behind is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;

use crate::resp::{Client, bulk, show};
use crate::server::{Kv, Statistics, eventually, info};

/// How long a well-behaved client waits at most where others do not keep it waiting.
const LIMIT: Duration = Duration::from_secs(1);
/// Requests that it makes at least.
const LEAST: u32 = 20;

/// A kv with a bystander, and one client that reads INFO.
pub(crate) struct Watched {
    pub(crate) kv: Kv,
    control: Client,
    used: u64,
    stop: Arc<AtomicBool>,
    bystander: JoinHandle<Duration>,
}

/// Sends requests until `stop` is set. The longest that it had to wait.
fn behave(mut client: Client, stop: &AtomicBool) -> Duration {
    let (mut asked, mut longest) = (0, Duration::ZERO);
    while asked < LEAST || !stop.load(Ordering::Relaxed) {
        let value = format!("value {asked}");
        let begin = Instant::now();
        assert_eq!(show(&client.ask(&["SET", "bystander", &value])), show(b"+OK\r\n"));
        assert_eq!(show(&client.ask(&["GET", "bystander"])), show(&bulk(value.as_bytes())));
        let took = begin.elapsed();
        assert!(took < hang_limit(LIMIT), "a bystander waited for {took:?}");
        (asked, longest) = (asked + 1, longest.max(took));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.ask(&["DEL", "bystander"]), b":1\r\n");
    longest
}

impl Watched {
    pub(crate) fn start(options: &[&str]) -> Self {
        let kv = Kv::start(options);
        let mut control = kv.client();
        let used = info(&mut control, "used_memory");
        let stop = Arc::new(AtomicBool::new(false));
        let (mut client, stops) = (kv.client(), Arc::clone(&stop));
        // Its first value is there before others fill the table: from then on it replaces it.
        assert_eq!(show(&client.ask(&["SET", "bystander", "value"])), show(b"+OK\r\n"));
        let bystander = std::thread::spawn(move || behave(client, &stops));
        Self { kv, control, used, stop, bystander }
    }

    pub(crate) fn client(&self) -> Client {
        self.kv.client()
    }

    /// The client that reads INFO.
    pub(crate) fn control(&mut self) -> &mut Client {
        &mut self.control
    }

    /// Ends all: the bystander was served, the other clients are gone, the memory is as it was.
    pub(crate) fn end(mut self) -> Statistics {
        self.stop.store(true, Ordering::Relaxed);
        let longest = self.bystander.join().expect("the bystander was served");
        println!("the bystander waited for {longest:?} at most");
        assert_eq!(self.control.ask(&["FLUSHALL"]), b"+OK\r\n");
        let mut left = (0, 0);
        let control = &mut self.control;
        let used = self.used;
        let deadline = Instant::now() + hang_limit(LIMIT);
        while left != (1, used) && Instant::now() < deadline {
            left = (info(control, "connected_clients"), info(control, "used_memory"));
        }
        assert_eq!(left, (1, used), "clients and bytes that are left");
        drop(self.control);
        self.kv.end()
    }
}

/// Waits until a server has so many clients.
pub(crate) fn await_clients(client: &mut Client, count: u64) {
    eventually("clients come or go", || info(client, "connected_clients") == count);
}
