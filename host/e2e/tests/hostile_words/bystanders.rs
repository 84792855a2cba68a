//! Streams that have nothing to do with an attack, on the same net: a kernel echoes, threads send
//! and check every byte.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpunet_e2e::{Flags, Handle, Job, Script, Started, any_port, eventually, peer};
use gpunet_host::{Net, Task};

/// Bytes of the messages of each stream: packets, the longest of them, beyond it, beyond the ring.
const LENGTHS: [usize; 4] = [16, 64, 900, 30_000];

/// What the threads are to do.
const RUN: u32 = 0;
const PAUSE: u32 = 1;
const END: u32 = 2;

struct Order {
    what: AtomicU32,
    /// Messages that came back in order.
    rounds: [AtomicU64; LENGTHS.len()],
    /// Threads that wait.
    waiting: AtomicU32,
}

/// Streams of bystanders.
pub(crate) struct Bystanders<'n> {
    started: Started<'n>,
    order: Arc<Order>,
    threads: Vec<JoinHandle<u64>>,
    handles: Vec<Handle>,
    script: Script,
}

impl<'n> Bystanders<'n> {
    /// Starts them; each byte comes back within so long.
    pub(crate) fn start(net: &'n Net, timeout: Duration) -> Self {
        let order = Arc::new(Order {
            what: AtomicU32::new(RUN),
            rounds: Default::default(),
            waiting: AtomicU32::new(0),
        });
        let mut job = Job::blocks(32);
        let mut script = Script::new();
        let mut threads = Vec::new();
        let flags = Arc::new(Flags::new(net.gpu()));
        for (at, length) in LENGTHS.into_iter().enumerate() {
            let (listener, address) = net.listen(any_port()).expect("a port");
            script = Script::new();
            script.given(0, listener).accept(0, 1).give_handle(1, at).close(0);
            script.echo(1, 4096).close(1);
            job = job.script(&script);
            let order = Arc::clone(&order);
            threads.push(std::thread::spawn(move || {
                let far = peer::connect(address);
                if let peer::Stream::Tcp(far) = &far {
                    far.set_read_timeout(Some(timeout)).expect("a time-out can be set");
                }
                drive(far, length, at, &order)
            }));
        }
        let started = job.flags(&flags).start(net);
        let handles = (0..LENGTHS.len()).map(|at| Handle(started.until(&flags, at))).collect();
        let this = Self { started, order, threads, handles, script };
        assert!(this.has_progressed(), "the streams work before anybody harms them");
        this
    }

    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.handles.clone()
    }

    /// Each stream has a message come back from now on.
    fn has_progressed(&self) -> bool {
        let rounds = || self.order.rounds.each_ref().map(|rounds| rounds.load(Ordering::Relaxed));
        let before = rounds();
        let progressed = || rounds().iter().zip(&before).all(|(now, before)| now > before);
        eventually(progressed)
    }

    /// They exchange bytes as before; then they are quiet until they are finished.
    pub(crate) fn pause(&self) {
        assert!(self.has_progressed(), "all streams go on");
        self.order.what.store(PAUSE, Ordering::Release);
        let quiet = || self.order.waiting.load(Ordering::Acquire) == LENGTHS.len() as u32;
        assert!(eventually(quiet), "all streams come to an end");
    }

    /// They go on a little, and end in order.
    pub(crate) fn finish(self) {
        self.order.what.store(RUN, Ordering::Release);
        assert!(self.has_progressed(), "all streams go on");
        self.order.what.store(END, Ordering::Release);
        let sent: Vec<u64> =
            self.threads.into_iter().map(|thread| thread.join().expect("every byte")).collect();
        let finished = self.started.finish();
        for (at, sent) in sent.into_iter().enumerate() {
            let echoed = finished.result(at, self.script.mark() - 1);
            assert_eq!(echoed as u64, sent, "stream {at}");
        }
    }

    /// Whether any of them did not survive.
    pub(crate) fn was_harmed(self) -> bool {
        self.order.what.store(END, Ordering::Release);
        let threads: Vec<bool> =
            self.threads.into_iter().map(|thread| thread.join().is_err()).collect();
        self.started.launch().abort();
        let _ = self.started.end();
        threads.contains(&true)
    }
}

/// Sends messages and checks what comes back; how many bytes it was in all.
fn drive(mut stream: peer::Stream, length: usize, at: usize, order: &Order) -> u64 {
    let seed = 100 + at as u64;
    let mut position = 0;
    let mut back = vec![0; length];
    loop {
        match order.what.load(Ordering::Acquire) {
            RUN => {
                let message = peer::bytes(seed, position, length);
                stream.write_all(&message).expect("the kernel receives");
                stream.read_exact(&mut back).expect("the kernel sends");
                peer::check(&back, seed, position);
                position += length as u64;
                order.rounds[at].fetch_add(1, Ordering::Relaxed);
                // The attack is to have a core, too.
                std::thread::sleep(Duration::from_micros(500));
            }
            PAUSE => {
                order.waiting.fetch_add(1, Ordering::AcqRel);
                while order.what.load(Ordering::Acquire) == PAUSE {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => break,
        }
    }
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(stream.read(&mut back).expect("the kernel closes"), 0);
    position
}
