//! A net to be attacked, with sockets of the program on it, and what must hold afterwards.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpunet_e2e::attack::Attack;
use gpunet_e2e::{
    Errno, Handle, Job, Script, SocketAddr, any_port, drop_in_order, eventually, is_rdma,
    net_builder, peer, soon,
};
use gpunet_host::{Net, Policy, Rule, SocketError, Statistics};

/// Where hostile kernels may bind and connect to: addresses of this machine that nobody else uses;
/// by RDMA, those of its device.
fn network() -> Rule {
    let home = any_port().to_ip().map(|home| format!("{}/32", home.ip()));
    let network = home.filter(|_| is_rdma()).unwrap_or_else(|| "127.77.0.0/16".to_owned());
    network.parse().expect("a rule")
}

/// Where their listeners bind.
pub(crate) fn home() -> SocketAddr {
    if is_rdma() { any_port() } else { SocketAddr::v4([127, 77, 0, 2], 0) }
}

/// Bytes that the sink sends on each connection.
pub(crate) const SINK_BYTES: usize = 300;

/// Proxy threads of the net.
const SHARDS: u32 = 2;

/// The address of a peer that sends a little and takes everything.
pub(crate) fn sink() -> SocketAddr {
    static SINK: OnceLock<SocketAddr> = OnceLock::new();
    *SINK.get_or_init(|| {
        let at = if is_rdma() { any_port() } else { SocketAddr::v4([127, 77, 0, 1], 0) };
        let listener = peer::Listener::bind(at).expect("a port");
        let address = listener.address();
        std::thread::spawn(move || {
            loop {
                // None for a while is no reason to end.
                if let Ok(stream) = listener.accept() {
                    std::thread::spawn(move || swallow(stream));
                }
            }
        });
        address
    })
}

fn swallow(mut stream: peer::Stream) {
    // The other end may be gone by now, and that is its business.
    let _ = stream.write_all(&peer::bytes(gpunet_e2e::script::SEED, 0, SINK_BYTES));
    let mut bin = [0; 4096];
    while matches!(stream.read(&mut bin), Ok(1..)) {}
}

/// A net with sockets that hostile kernels are given.
pub(crate) struct World {
    pub(crate) net: Net,
    fresh: Statistics,
    streams: Vec<(Handle, UnixStream)>,
    listener: (Handle, SocketAddr),
    waiting: Vec<peer::Stream>,
}

impl World {
    pub(crate) fn new() -> Self {
        let policy = Policy::closed().allow_bind(network()).allow_connect(network());
        let net = net_builder()
            .sockets(192)
            .proxy_threads(SHARDS)
            .linger(Duration::from_millis(500))
            .policy(policy)
            .on_print(|_, _| {})
            .build()
            .expect("a net");
        let fresh = net.statistics();
        let streams = (0..7).map(|_| {
            let (near, far) = UnixStream::pair().expect("a pair");
            far.set_nonblocking(true).expect("a socket can");
            (net.hand_over(near).expect("it is taken"), far)
        });
        let streams = streams.collect();
        let listener = net.listen(home()).expect("a port");
        let waiting = (0..3).map(|_| peer::connect(listener.1)).collect();
        Self { net, fresh, streams, listener, waiting }
    }

    /// The sockets that a hostile kernel may spoil.
    pub(crate) fn given(&self) -> Vec<Handle> {
        self.streams.iter().map(|(handle, _)| *handle).chain([self.listener.0]).collect()
    }

    /// Gives the proxy something to receive on all sockets.
    pub(crate) fn send_to_all(&mut self) {
        for (_, far) in &self.streams {
            // What the system does not hold is not sent.
            let _ = (&mut &*far).write(&[7; 9000]);
        }
        for stream in &mut self.waiting {
            stream.write_all(&[7; 100]).expect("the system holds it");
        }
    }

    /// The proxy threads answer kernels and the program.
    pub(crate) fn answers(&self, attack: &Attack) {
        let begin = Instant::now();
        let report = attack.probe(&self.net);
        assert_eq!((report.answers, report.unanswered), (u64::from(SHARDS), 0), "{report:?}");
        self.net.dump().expect("the proxy answers");
        assert!(begin.elapsed() < soon(), "{:?}", begin.elapsed());
    }

    /// While kernels run and nothing happens, every turn ends in a sleep.
    pub(crate) fn sleeps_while_kernels_run(&self) {
        let (turns, sleeps) = self.in_a_while(Duration::from_millis(200));
        assert!(sleeps > 0 && turns <= 2 * sleeps + 64, "{turns} turns, {sleeps} sleeps");
    }

    /// Turns and sleeps of the proxy threads from now on.
    fn in_a_while(&self, time: Duration) -> (u64, u64) {
        // Whatever was on its way has arrived.
        std::thread::sleep(Duration::from_millis(50));
        let before = self.net.statistics();
        std::thread::sleep(time);
        let after = self.net.statistics();
        (after.turns - before.turns, after.sleeps - before.sleeps)
    }

    /// A correct kernel finds everything as it should be.
    pub(crate) fn serves(&self) {
        let mut script = Script::new();
        for _ in 0..3 {
            script.stream(0, sink()).recv_all(0, SINK_BYTES as u64, 64).send(0, 3000).close(0);
        }
        Job::blocks(32).script(&script).script(&script).run(&self.net);
    }

    /// Closes everything, and sees that all slots, rings and descriptors come back and that the
    /// proxy sleeps.
    pub(crate) fn all_comes_back(self) {
        for handle in self.given() {
            // Some were ended for what was written to them, and say so.
            let taken = self.net.take_back(handle);
            if matches!(taken, Err(SocketError::Call { errno: Errno::EOPNOTSUPP, .. })) {
                // By RDMA there is nothing to give back; a kernel may close it.
                let mut script = Script::new();
                Job::blocks(32).script(script.given(0, handle).close(0).any()).run(&self.net);
            }
        }
        drop((self.streams, self.waiting));
        let empty = || {
            let now = self.net.statistics();
            now.sockets == 0 && now.free_ring_bytes == self.fresh.free_ring_bytes
        };
        let emptied = eventually(empty);
        assert!(emptied, "{:?}\n{:?}", self.net.statistics(), self.net.dump());
        let mut sleeps = 0;
        let is_idle = || {
            let before = self.net.statistics().sleeps;
            std::thread::sleep(Duration::from_millis(200));
            sleeps = self.net.statistics().sleeps - before;
            sleeps < 40
        };
        assert!(eventually(is_idle), "{sleeps} sleeps in 200 ms without a kernel");
        drop_in_order(self.net);
    }
}
