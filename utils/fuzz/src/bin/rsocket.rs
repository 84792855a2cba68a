//! A peer of rsocket that says anything: private data, then messages, completions and a target list, while our
//! kernel offers and consumes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rsocket_shim::protocol::{ByteOrder, Protocol, Ring, Settings, TargetList, Terms};
use rsocket_shim::work::{Completion, Fault};

const CAPACITY: u64 = 4096;
const SEND: u64 = 0x1_0000_0000;
const RECEIVE: u64 = 0x2_0000_0000;

/// Takes its values from the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

/// Two entries that the peer writes.
#[derive(Default)]
struct List([[u8; 16]; 2]);

impl TargetList for List {
    fn read(&self, entry: usize) -> [u8; 16] {
        self.0[entry]
    }

    fn clear(&mut self, entry: usize) {
        self.0[entry] = [0; 16];
    }
}

/// A connection and what is known of it.
struct Run {
    protocol: Protocol,
    list: List,
    sent: u64,
    arrived: u64,
}

impl Run {
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let Self { protocol, list, .. } = self;
        match input.next::<1>()?[0] % 10 {
            0 => {
                let _ = protocol.offer(self.sent + u64::from(u16::from_le_bytes(input.next()?)));
            }
            1 => {
                let _ = protocol
                    .consumed(self.arrived - u64::from(input.next::<1>()?[0]).min(self.arrived));
            }
            2 => list.0[usize::from(input.next::<1>()?[0] % 2)] = input.next()?,
            3 => {
                let immediate = u32::from_le_bytes(input.next()?);
                protocol.completed(Completion::Received(Ok(immediate)), list);
            }
            4 => protocol.completed(Completion::Written(Ok(())), list),
            5 => protocol.completed(Completion::Written(Err(Fault::Unanswered)), list),
            6 => protocol.completed(Completion::Received(Err(Fault::Flushed)), list),
            7 => protocol.shutdown_send(),
            8 => protocol.disconnect(),
            _ => protocol.keepalive(),
        }
        protocol.receives_to_post();
        while let Some(write) = protocol.next_write() {
            for piece in write.pieces.iter().filter(|piece| piece.length > 0) {
                let end = piece.address + u64::from(piece.length);
                assert!(
                    piece.address >= SEND && end <= SEND + CAPACITY,
                    "outside the ring: {write:?}"
                );
            }
        }
        // Positions never move back, and never past what there is.
        assert!((self.sent..=self.sent + CAPACITY).contains(&protocol.sent()));
        assert!((self.arrived..=self.arrived + CAPACITY).contains(&protocol.arrived()));
        (self.sent, self.arrived) = (protocol.sent(), protocol.arrived());
        Some(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let Some(private) = input.next::<40>() else { return };
    let ring = |address, key| Ring { address, key, capacity: CAPACITY, base: 0 };
    let settings = Settings { receive_queue: 16, send_queue: 16, order: ByteOrder::Little };
    let terms = Terms::new(settings, ring(SEND, 1), ring(RECEIVE, 2), (0x3_0000_0000, 3));
    let terms = terms.expect("sound terms");
    let Ok(protocol) = Protocol::new(&terms, &private) else { return };
    let mut run = Run { protocol, list: List::default(), sent: 0, arrived: 0 };
    while run.step(&mut input).is_some() {}
});
