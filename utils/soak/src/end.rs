//! The program's end of a connection: follows the terms as the kernel's end does (see
//! `gpunet_e2e_kernels::soak`), makes and checks every byte, and breaks off where its plan says.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use gpunet_device::SocketAddr;
use gpunet_e2e_kernels::soak::{ANSWERER_ENDS, ECHO, GONE, HALF_CLOSE, TERMS_BYTES, Terms};
use gpunet_sockets::{By, Limits, Stream, is_time_out};
use gpunet_support::pattern::{self, Draw};
use gpunet_support::testing::hang_limit;

/// How long a call on one of the program's sockets may wait. Whatever the other end does, it does
/// sooner.
fn timeout() -> Duration {
    hang_limit(Duration::from_millis(3500))
}

/// The limit of every call of the program.
pub(crate) fn limits() -> Limits {
    Limits::timeout(timeout())
}

/// Connects by the system's sockets.
pub(crate) fn connect(to: &SocketAddr) -> io::Result<Stream> {
    Stream::connect(to, By::Tcp, &limits())
}

/// Most bytes of one read or write.
const PIECE: u64 = 48 << 10;
/// How much longer than the other end waits one that does not read stays.
const OUTLAST: Duration = Duration::from_millis(100);

/// How an end breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// With a reset.
    Reset,
    /// By closing, in the middle of a message or with bytes unread.
    Vanish,
    /// By saying nothing more, until the other end has given up.
    Silence,
    /// By reading nothing more, for longer than the other end waits.
    NotReading,
}

/// What an end does beside its terms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Breaks off once it has sent so many bytes (received, before it stops reading).
    pub(crate) breaks: Option<(Break, u64)>,
    /// For the self-check: leaves this byte out.
    pub(crate) omits: Option<u64>,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As the terms have it.
    Well,
    /// By breaking off, as planned.
    Broken,
    /// A byte was not the pattern's.
    Wrong,
    /// The stream ended before all had come.
    Early,
    /// Bytes came where the end should have been.
    TooMany,
    /// A call waited for longer than it may.
    TimedOut,
    /// The other end is gone: reset, broken pipe, refused.
    Gone(io::ErrorKind),
}

/// What became of this end.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) ended: Ended,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Report {
    /// Of a connection that did not come about.
    pub(crate) fn unmade(error: &io::Error) -> Self {
        Self { ended: stopped(error), sent: 0, received: 0 }
    }
}

fn stopped(error: &io::Error) -> Ended {
    if is_time_out(error) { Ended::TimedOut } else { Ended::Gone(error.kind()) }
}

/// Calls: sends the terms and follows them.
pub(crate) fn call(stream: Stream, terms: &Terms, manner: Manner) -> Report {
    let mut bytes = Vec::with_capacity(TERMS_BYTES);
    for word in terms.to_words() {
        bytes.extend(word.to_le_bytes());
    }
    if let Err(error) = (&stream).write_all(&bytes) {
        return Report::unmade(&error);
    }
    End::new(stream, terms, true, manner).run()
}

/// Receives the terms of a connection.
pub(crate) fn handshake(mut stream: &Stream) -> Result<Terms, Ended> {
    let mut bytes = [0; TERMS_BYTES];
    stream.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Ended::Early,
        _ => stopped(&error),
    })?;
    let mut words = [0; TERMS_BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut whole = [0; 8];
        whole.copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    Terms::from_words(words).ok_or(Ended::Wrong)
}

/// Answers: follows terms that have come.
pub(crate) fn answer(stream: Stream, terms: &Terms, manner: Manner) -> Report {
    End::new(stream, terms, false, manner).run()
}

struct End<'t> {
    stream: Stream,
    terms: &'t Terms,
    is_caller: bool,
    manner: Manner,
    draw: Draw,
    piece: Vec<u8>,
    sent: u64,
    received: u64,
}

impl<'t> End<'t> {
    fn new(stream: Stream, terms: &'t Terms, is_caller: bool, manner: Manner) -> Self {
        let draw = Draw::new(terms.seed, 1 + u64::from(is_caller));
        Self { stream, terms, is_caller, manner, draw, piece: Vec::new(), sent: 0, received: 0 }
    }

    fn run(mut self) -> Report {
        let mut ended = self.turns_and_end().err().unwrap_or(Ended::Well);
        let (sent, received) = (self.sent, self.received);
        if ended == Ended::Broken {
            match self.manner.breaks {
                Some((Break::Reset, _)) => self.stream.reset(),
                Some((Break::Silence, _)) => {
                    // The other end gives up in the end; one that does not is found here.
                    if let Err(Ended::TimedOut) = self.drain() {
                        ended = Ended::TimedOut;
                    }
                }
                Some((Break::NotReading, _)) => {
                    std::thread::sleep(Duration::from_nanos(self.terms.timeout_ns) + OUTLAST);
                }
                _ => {}
            }
        }
        Report { ended, sent, received }
    }

    fn turns_and_end(&mut self) -> Result<(), Ended> {
        let terms = self.terms;
        for turn in 0..terms.turns {
            self.pass(true, terms.up(turn))?;
            self.pass(false, terms.down(turn))?;
        }
        match (terms.ending, self.is_caller) {
            (ANSWERER_ENDS, true) => self.receive_end(),
            (ANSWERER_ENDS, false) => {
                self.shut()?;
                self.receive_end()
            }
            (ECHO, true) => {
                self.send_and_receive(terms.tail())?;
                self.receive_end()
            }
            (GONE, true) => self.send(terms.tail()),
            (GONE, false) => {
                self.receive(terms.tail())?;
                self.receive_end()
            }
            (HALF_CLOSE, true) => {
                self.shut()?;
                self.receive(terms.tail())?;
                self.receive_end()
            }
            (HALF_CLOSE, false) => {
                self.receive_end()?;
                self.send(terms.tail())
            }
            (_, true) => {
                self.shut()?;
                self.receive_end()
            }
            (_, false) => self.receive_end(),
        }
    }

    fn pass(&mut self, up: bool, bytes: u64) -> Result<(), Ended> {
        if up == self.is_caller { self.send(bytes) } else { self.receive(bytes) }
    }

    fn shut(&self) -> Result<(), Ended> {
        self.stream.end().map_err(|error| stopped(&error))
    }

    fn send(&mut self, bytes: u64) -> Result<(), Ended> {
        let seed = if self.is_caller { self.terms.up_seed() } else { self.terms.down_seed() };
        let cut = match self.manner.breaks {
            Some((Break::NotReading, _)) | None => u64::MAX,
            Some((_, cut)) => cut,
        };
        let end = self.sent + bytes;
        while self.sent < end {
            if self.sent >= cut {
                return Err(Ended::Broken);
            }
            let most = self.draw.between(1, PIECE).min(end.min(cut) - self.sent);
            let range = self.sent..self.sent + most;
            self.piece.clear();
            let omitted = self.manner.omits;
            self.piece
                .extend(range.filter(|at| Some(*at) != omitted).map(|at| pattern::byte(seed, at)));
            (&self.stream).write_all(&self.piece).map_err(|error| stopped(&error))?;
            self.sent += most;
        }
        Ok(())
    }

    fn receive(&mut self, bytes: u64) -> Result<(), Ended> {
        let seed = if self.is_caller { self.terms.down_seed() } else { self.terms.up_seed() };
        let end = self.received + bytes;
        while self.received < end {
            if let Some((Break::NotReading, after)) = self.manner.breaks
                && self.received >= after
            {
                return Err(Ended::Broken);
            }
            let most = self.draw.between(1, PIECE).min(end - self.received);
            self.piece.resize(most as usize, 0);
            let (position, stream) = (self.received, &self.stream);
            self.received += receive_piece(stream, &mut self.piece, seed, position)?;
        }
        Ok(())
    }

    /// Sends the tail and receives it back at the same time.
    fn send_and_receive(&mut self, bytes: u64) -> Result<(), Ended> {
        let seed = self.terms.up_seed();
        let begin = self.sent;
        let mut back = begin;
        let (stream, mut draw) = (&self.stream, self.draw);
        let (sent, received) = std::thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let mut writer = stream;
                let mut at = begin;
                while at < begin + bytes {
                    let next = (at + draw.between(1, PIECE)).min(begin + bytes);
                    let mut piece = vec![0; (next - at) as usize];
                    pattern::fill_slice(&mut piece, seed, at);
                    writer.write_all(&piece).map_err(|error| stopped(&error))?;
                    at = next;
                }
                stream.end().map_err(|error| stopped(&error))
            });
            let mut receive = || -> Result<(), Ended> {
                while back < begin + bytes {
                    let most = self.draw.between(1, PIECE).min(begin + bytes - back);
                    self.piece.resize(most as usize, 0);
                    back += receive_piece(stream, &mut self.piece, seed, back)?;
                }
                Ok(())
            };
            let received = receive();
            (sender.join().unwrap_or(Err(Ended::Gone(io::ErrorKind::Other))), received)
        });
        self.received += back - begin;
        received.and(sent)?;
        self.sent += bytes;
        Ok(())
    }

    fn receive_end(&mut self) -> Result<(), Ended> {
        match (&self.stream).read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Ended::TooMany),
            Err(error) => Err(stopped(&error)),
        }
    }

    /// Reads whatever comes, to the end.
    fn drain(&mut self) -> Result<(), Ended> {
        self.piece.resize(PIECE as usize, 0);
        while (&self.stream).read(&mut self.piece).map_err(|error| stopped(&error))? > 0 {}
        Ok(())
    }
}

/// Receives what comes, up to a whole piece, and checks it; how much it was.
fn receive_piece(
    mut stream: &Stream,
    piece: &mut [u8],
    seed: u64,
    position: u64,
) -> Result<u64, Ended> {
    let got = stream.read(piece).map_err(|error| stopped(&error))?;
    if got == 0 {
        return Err(Ended::Early);
    }
    if pattern::slice_holds(&piece[..got], seed, position) {
        Ok(got as u64)
    } else {
        Err(Ended::Wrong)
    }
}
