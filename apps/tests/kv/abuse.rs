//! Clients of the soak that do their worst. What they ask for and read to the end is compared, too.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpunet_support::pattern::{Draw, fill_slice};

use crate::common::{Guarded, hang_limit, skip};
use crate::resp::{Client, bulk, request, show};
use crate::soak::{Failure, LIMIT};

/// A key that is there all the time; its value.
const LARGE_KEY: &str = "abused large";
const LARGE: usize = 50_000;
/// Other keys.
const KEYS: u64 = 32;
/// How many there are at a time.
pub(crate) const ABUSERS: u64 = 3;
/// Things that they do, and how many of them each does at least, so that nothing is left out.
const ACTS: u64 = 12;
pub(crate) const EACH: u64 = ACTS / ABUSERS;
/// Connections that are kept open.
const HELD: usize = 24;
/// How long a flood is sent that nobody reads the answers of.
const UNREAD: Duration = Duration::from_millis(200);
/// Where the child process connects to.
const ADDRESS: &str = "GPUNET_KV_SOAK_ADDRESS";
/// Its connections, and how long it lives if nobody kills it.
const CHILD_CONNECTIONS: usize = 16;
const CHILD_LIFE: Duration = Duration::from_secs(20);

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) resets: u64,
    pub(crate) halves: u64,
    pub(crate) floods: u64,
    pub(crate) random: u64,
    pub(crate) killed: u64,
    /// Answers that were compared.
    pub(crate) checked: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: Self) {
        self.resets += other.resets;
        self.halves += other.halves;
        self.floods += other.floods;
        self.random += other.random;
        self.killed += other.killed;
        self.checked += other.checked;
    }
}

fn large() -> Vec<u8> {
    let mut value = vec![0; LARGE];
    fill_slice(&mut value, 9, 0);
    value
}

/// Stores what they ask for.
pub(crate) fn prepare(client: &mut Client) {
    let set = [b"SET".as_slice(), LARGE_KEY.as_bytes(), &large()];
    assert_eq!(client.ask(&set), b"+OK\r\n");
}

/// The keys whose names are known.
pub(crate) fn keys() -> Vec<String> {
    let numbered = (0..KEYS).map(|number| format!("abused {number}"));
    numbered.chain([LARGE_KEY.to_owned()]).collect()
}

/// A client that does its worst.
pub(crate) struct Abuser {
    address: String,
    draw: Draw,
    /// What it begins with.
    first: u64,
    steps: u64,
    large: Vec<u8>,
    held: Vec<(Client, Vec<u8>)>,
    pub(crate) done: Done,
}

impl Abuser {
    /// Number `id`, which begins with what others come to later.
    pub(crate) fn new(address: &str, id: u64) -> Self {
        Self {
            address: address.to_owned(),
            draw: Draw::new(id, 22),
            first: id * EACH,
            steps: 0,
            large: large(),
            held: Vec::new(),
            done: Done::default(),
        }
    }

    fn client(&self) -> Client {
        Client::within(&self.address, hang_limit(LIMIT))
    }

    fn key(&mut self) -> String {
        format!("abused {}", self.draw.below(KEYS))
    }

    fn pause(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.draw.below(most)));
    }

    fn reset(&mut self, client: Client) {
        client.reset();
        self.done.resets += 1;
    }

    /// Does the next thing.
    pub(crate) fn step(&mut self) -> Result<(), Failure> {
        let act = if self.steps < EACH { self.first + self.steps } else { self.draw.next() };
        self.steps += 1;
        match act % ACTS {
            0 | 3 => self.reset_within_a_request(),
            1 | 5 => self.reset_within_answers()?,
            2 | 9 => self.hold(),
            4 => self.read_late()?,
            6 => self.never_read(),
            7 => self.random_bytes(),
            8 => self.end_behind_requests()?,
            10 => self.short_lived_keys()?,
            _ => {
                let client = self.client();
                self.pause(3);
                self.reset(client);
            }
        }
        self.pause(20);
        Ok(())
    }

    /// A SET of up to 200 kB.
    fn set(&mut self) -> Vec<u8> {
        let (key, length) = (self.key(), self.draw.below(200_000) as usize);
        let value = self.large.repeat(4);
        request(&[b"SET".as_slice(), key.as_bytes(), &value[..length]])
    }

    fn reset_within_a_request(&mut self) {
        let (mut client, whole) = (self.client(), self.set());
        let cut = self.draw.below(whole.len() as u64) as usize;
        // Of other requests before it, no answer is read.
        let sent = [request(&["PING"]).repeat(3), whole[..cut].to_vec()].concat();
        let _ = client.send(&sent);
        self.pause(4);
        self.reset(client);
    }

    fn reset_within_answers(&mut self) -> Result<(), Failure> {
        let mut client = self.client();
        client.send(&request(&["GET", LARGE_KEY]).repeat(50))?;
        for _ in 0..self.draw.below(4) {
            self.assert_large(&mut client)?;
        }
        self.pause(4);
        self.reset(client);
        Ok(())
    }

    fn assert_large(&mut self, client: &mut Client) -> Result<(), Failure> {
        let answer = client
            .try_answer()
            .map_err(|error| Failure::during(&format!("GET {LARGE_KEY}"), error))?;
        self.done.checked += 1;
        if answer == bulk(&self.large) {
            return Ok(());
        }
        Err(Failure::Lost(format!("GET {LARGE_KEY}: {}", show(&answer))))
    }

    /// Half a request, or nothing, on a connection that stays open; an older one ends.
    fn hold(&mut self) {
        let (mut client, whole) = (self.client(), self.set());
        let cut = if self.draw.once_in(3) { 0 } else { self.draw.below(whole.len() as u64) };
        let (half, rest) = whole.split_at(cut as usize);
        if client.send(half).is_ok() {
            self.held.push((client, rest.to_vec()));
            self.done.halves += 1;
        }
        if self.held.len() < HELD {
            return;
        }
        let at = self.draw.below(HELD as u64) as usize;
        let (mut client, rest) = self.held.swap_remove(at);
        match self.draw.below(3) {
            0 => {
                let _ = client.send(&rest);
                let _ = client.try_answer();
            }
            1 => client.end_sending(),
            _ => self.reset(client),
        }
    }

    /// A flood whose answers are read after a while.
    fn read_late(&mut self) -> Result<(), Failure> {
        let mut client = self.client();
        let count = self.draw.between(20, 200) as usize;
        let flood = request(&["GET", LARGE_KEY]).repeat(count);
        let mut sender = client.sender();
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || sender.send(&flood));
            self.pause(1000);
            let read = (0..count).try_for_each(|_| self.assert_large(&mut client));
            let sent = sending.join().expect("it sends");
            read.and(sent.map_err(Failure::from))
        })?;
        self.done.floods += 1;
        Ok(())
    }

    /// A flood whose answers nobody reads.
    fn never_read(&mut self) {
        let mut client = Client::within(&self.address, UNREAD);
        let _ = client.send(&request(&["GET", LARGE_KEY]).repeat(20_000));
        self.done.floods += 1;
        match self.draw.below(3) {
            0 => self.reset(client),
            1 => drop(client),
            _ if self.held.len() < HELD => self.held.push((client, Vec::new())),
            _ => self.held[0] = (client, Vec::new()),
        }
    }

    fn random_bytes(&mut self) {
        let mut client = self.client();
        let mut bytes = vec![0; self.draw.between(1, 3000) as usize];
        fill_slice(&mut bytes, self.draw.next(), 0);
        if self.draw.once_in(2) {
            bytes = request(&["SET", "abused by chance", "value"]).repeat(3);
            for _ in 0..self.draw.between(1, 4) {
                let at = self.draw.below(bytes.len() as u64) as usize;
                bytes[at] = self.draw.pick([b'*', b'$', b'\r', b'\n', b'-', b'0', b'9', 0, 255]);
            }
        }
        let _ = client.send(&bytes);
        client.end_sending();
        let _ = client.rest();
        self.done.random += 1;
    }

    /// Nothing more is sent behind some requests: all of them are answered.
    fn end_behind_requests(&mut self) -> Result<(), Failure> {
        let mut client = self.client();
        let count = self.draw.between(1, 30) as usize;
        client.send(&request(&["GET", LARGE_KEY]).repeat(count))?;
        client.end_sending();
        for _ in 0..count {
            self.assert_large(&mut client)?;
        }
        match client.rest() {
            Some(rest) if rest.is_empty() => Ok(()),
            Some(rest) => Err(Failure::Lost(format!("behind the last answer: {}", show(&rest)))),
            None => Err(Failure::Hung("the connection does not end".to_owned())),
        }
    }

    /// Keys that expire while others are asked for.
    fn short_lived_keys(&mut self) -> Result<(), Failure> {
        let mut client = self.client();
        for _ in 0..10 {
            let (key, time) = (self.key(), self.draw.between(1, 300).to_string());
            let set = request(&["SET", &key, "short-lived", "PX", &time]);
            client.try_exchange(&[set, request(&["GET", &self.key()])].concat(), 2)?;
        }
        Ok(())
    }
}

/// Starts a process of clients, and kills it in the middle.
pub(crate) fn kill_a_child(address: &str, draw: &mut Draw) -> Done {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "abuse::killed_clients_harm_nobody_else"])
        .env(ADDRESS, address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Guarded::spawn(&mut command);
    std::thread::sleep(Duration::from_millis(draw.between(50, 1500)));
    drop(child);
    Done { killed: 1, ..Done::default() }
}

#[test]
#[ignore = "the process that the soak kills"]
fn killed_clients_harm_nobody_else() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return skip("killed_clients_harm_nobody_else", "the soak starts it");
    };
    let end = Instant::now() + CHILD_LIFE;
    let limit = Duration::from_millis(20);
    let mut clients: Vec<_> =
        (0..CHILD_CONNECTIONS).map(|_| Client::within(&address, limit)).collect();
    let mut abuser = Abuser::new(&address, 7);
    while Instant::now() < end {
        for client in &mut clients {
            let requests = [request(&["GET", LARGE_KEY]).repeat(4), abuser.set()].concat();
            // It is of no use once bytes did not go: then it stays as it is.
            let _ = client.send(&requests);
            let _ = client.try_answer();
        }
    }
}
