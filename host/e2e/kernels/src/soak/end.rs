//! One end of a connection: follows its terms, makes and checks every byte, notes how far it came.

use gpunet_device::calls::SHUT_WR;
use gpunet_device::{Errno, Group, On, SharedBuf, Stream, simt};
use gpunet_support::pattern;

use super::terms::drawn;
use super::{
    ANSWERER_ENDS, EARLY_END, ECHO, GONE, HALF_CLOSE, Job, Outcome, TERMS_BYTES, TOO_MANY_BYTES,
    Terms, WRONG_BYTES,
};

/// One end of a connection, as each thread of its group sees it.
pub(super) struct End<'s, G: Group> {
    stream: &'s Stream<G>,
    group: G,
    terms: Terms,
    is_caller: bool,
    in_rings: bool,
    stall_ns: u64,
    buffer: SharedBuf,
    outcome: Outcome,
}

impl<'s, G: Group> End<'s, G> {
    #[inline(always)]
    pub(super) fn new(
        stream: &'s Stream<G>,
        on: On<G>,
        job: &Job,
        terms: &Terms,
        is_caller: bool,
        buffer: SharedBuf,
        longest_ns: u64,
    ) -> Self {
        let outcome = Outcome { longest_ns, ..Outcome::OVER };
        let (group, in_rings, stall_ns) = (on.group(), job.in_rings != 0, job.stall_ns);
        Self { stream, group, terms: *terms, is_caller, in_rings, stall_ns, buffer, outcome }
    }

    #[inline(always)]
    pub(super) fn call(mut self) -> Outcome {
        let result = self.handshake_and_call();
        self.outcome.result = result.err().unwrap_or(0);
        self.outcome
    }

    #[inline(always)]
    pub(super) fn answer(mut self) -> Outcome {
        let result = self.turns_and_end();
        self.outcome.result = result.err().unwrap_or(0);
        self.outcome
    }

    #[inline(always)]
    fn handshake_and_call(&mut self) -> Result<(), i64> {
        let words = self.buffer.cast::<u64>();
        if self.group.is_leader() {
            for (at, word) in self.terms.to_words().iter().enumerate() {
                words.set(at, *word);
            }
        }
        let begin = simt::now_ns();
        let sent = self.stream.write_all(self.buffer.first(TERMS_BYTES));
        self.took(begin);
        sent.map_err(Errno::negative)?;
        self.turns_and_end()
    }

    #[inline(always)]
    fn turns_and_end(&mut self) -> Result<(), i64> {
        let terms = self.terms;
        for turn in 0..terms.turns {
            self.pass(true, terms.up(turn))?;
            self.pass(false, terms.down(turn))?;
        }
        let shut = |this: &Self| this.stream.shutdown(SHUT_WR).map_err(Errno::negative);
        match terms.ending {
            ANSWERER_ENDS if self.is_caller => self.receive_end(),
            ANSWERER_ENDS => {
                shut(self)?;
                self.receive_end()
            }
            GONE => {
                self.pass(true, terms.tail())?;
                if self.is_caller { Ok(()) } else { self.receive_end() }
            }
            HALF_CLOSE if self.is_caller => {
                shut(self)?;
                self.receive(terms.tail())?;
                self.receive_end()
            }
            HALF_CLOSE => {
                self.receive_end()?;
                self.send(terms.tail())
            }
            ECHO if !self.is_caller => {
                self.echo(terms.tail())?;
                self.receive_end()
            }
            _ if self.is_caller => {
                shut(self)?;
                self.receive_end()
            }
            _ => self.receive_end(),
        }
    }

    /// So many bytes up (from the caller), or down.
    #[inline(always)]
    fn pass(&mut self, up: bool, bytes: u64) -> Result<(), i64> {
        if up == self.is_caller { self.send(bytes) } else { self.receive(bytes) }
    }

    #[inline(always)]
    fn took(&mut self, begin: u64) {
        self.outcome.longest_ns = self.outcome.longest_ns.max(simt::now_ns() - begin);
    }

    /// A piece of the buffer: other lengths and other alignments each time.
    #[inline(always)]
    fn piece(&self, position: u64, most: u64) -> SharedBuf {
        let seed = self.terms.seed;
        let start = drawn(seed, position ^ 0x0FF5, 16) as usize - 1;
        let longest = (self.buffer.len() - start) as u64;
        self.buffer.slice(start, drawn(seed, position, longest).min(most) as usize)
    }

    #[inline(never)]
    fn send(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = if self.is_caller { self.terms.up_seed() } else { self.terms.down_seed() };
        let end = self.outcome.sent + bytes;
        while self.outcome.sent < end {
            let position = self.outcome.sent;
            let piece = self.piece(position, end - position);
            let begin;
            let sent = if self.in_rings {
                begin = simt::now_ns();
                self.stream.reserve(1, piece.len()).map(|space| {
                    let [first, second] = space.pieces();
                    let behind = position + first.len() as u64;
                    each(self.group, first.len(), |at| first.set(at, byte(seed, position, at)));
                    each(self.group, second.len(), |at| second.set(at, byte(seed, behind, at)));
                    let length = space.len();
                    space.commit(length);
                    length
                })
            } else {
                each(self.group, piece.len(), |at| piece.set(at, byte(seed, position, at)));
                begin = simt::now_ns();
                self.stream.write(piece)
            };
            self.took(begin);
            self.outcome.sent += sent.map_err(Errno::negative)? as u64;
        }
        Ok(())
    }

    #[inline(never)]
    fn receive(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = if self.is_caller { self.terms.down_seed() } else { self.terms.up_seed() };
        let end = self.outcome.received + bytes;
        while self.outcome.received < end {
            let position = self.outcome.received;
            let begin = simt::now_ns();
            self.stall(begin);
            let piece = self.piece(position, end - position);
            let mut wrong = false;
            let got = if self.in_rings {
                self.stream.peek(1).map(|peek| {
                    let Some(peek) = peek else { return 0 };
                    let most = (end - position).min(peek.len() as u64) as usize;
                    let [first, second] = peek.pieces();
                    let behind = position + first.len() as u64;
                    each(self.group, first.len().min(most), |at| {
                        wrong |= first.get(at) != Some(byte(seed, position, at));
                    });
                    each(self.group, most.saturating_sub(first.len()), |at| {
                        wrong |= second.get(at) != Some(byte(seed, behind, at));
                    });
                    peek.consume(most);
                    most
                })
            } else {
                let got = self.stream.read(piece);
                each(self.group, got.unwrap_or(0), |at| {
                    wrong |= piece.get(at) != Some(byte(seed, position, at));
                });
                got
            };
            self.took(begin);
            let got = got.map_err(Errno::negative)?;
            // Also a barrier: the buffer may be overwritten behind it.
            if self.group.any(wrong) {
                return Err(WRONG_BYTES);
            }
            if got == 0 {
                return Err(EARLY_END);
            }
            self.outcome.received += got as u64;
        }
        Ok(())
    }

    /// Receives so many bytes, and sends each piece back before it takes the next.
    #[inline(never)]
    fn echo(&mut self, bytes: u64) -> Result<(), i64> {
        let seed = self.terms.up_seed();
        let end = self.outcome.received + bytes;
        while self.outcome.received < end {
            let position = self.outcome.received;
            let piece = self.piece(position, end - position);
            let begin = simt::now_ns();
            let got = self.stream.read(piece);
            self.took(begin);
            let piece = piece.first(got.map_err(Errno::negative)?);
            if piece.is_empty() {
                return Err(EARLY_END);
            }
            let mut wrong = false;
            each(self.group, piece.len(), |at| {
                wrong |= piece.get(at) != Some(byte(seed, position, at));
            });
            if self.group.any(wrong) {
                return Err(WRONG_BYTES);
            }
            self.outcome.received += piece.len() as u64;
            let mut back = 0;
            while back < piece.len() {
                let begin = simt::now_ns();
                let sent = self.stream.write(piece.slice(back, usize::MAX));
                self.took(begin);
                back += sent.map_err(Errno::negative)?;
            }
            self.outcome.sent += piece.len() as u64;
        }
        Ok(())
    }

    /// The stream must be over.
    #[inline(always)]
    fn receive_end(&mut self) -> Result<(), i64> {
        let begin = simt::now_ns();
        let got = self.stream.read(self.buffer.first(1));
        self.took(begin);
        if got.map_err(Errno::negative)? == 0 { Ok(()) } else { Err(TOO_MANY_BYTES) }
    }

    /// The planted fault of the self-check: a receive that takes too long.
    #[inline(always)]
    fn stall(&mut self, begin: u64) {
        if self.stall_ns > 0 && self.group.is_leader() {
            while simt::now_ns() - begin < self.stall_ns {
                simt::pause();
            }
        }
        self.stall_ns = 0;
        self.group.barrier();
    }
}

#[inline(always)]
fn byte(seed: u64, position: u64, at: usize) -> u8 {
    pattern::byte(seed, position + at as u64)
}

/// Runs `f` for the calling thread's share of `length` places.
#[inline(always)]
fn each<G: Group>(group: G, length: usize, mut f: impl FnMut(usize)) {
    let mut at = group.rank();
    while at < length {
        f(at);
        at += group.size();
    }
}
