//! Mutations: what a hostile kernel writes, and where.

use gpunet_device::abi::bits::Progress;
use gpunet_support::pattern::Draw;

use super::{Attack, Past, word};

/// One step of an attack. Numbers that name nothing are taken modulo what there is, so that any
/// bits are a mutation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Mutation {
    /// A [`What`].
    pub what: u32,
    /// A [`How`].
    pub how: u32,
    /// Which of the sockets or slots, or which word of a region.
    pub target: u32,
    /// Which word of those that belong together, or how many.
    pub at: u32,
    /// What the value, or everything else that is needed, is made from.
    pub value: u64,
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

numbered! {
    /// What is written.
    What {
        /// A send tail.
        Tail,
        /// A receive head: of a stream, an accept ring, an event ring.
        Head,
        /// One unit of the packet that is sent.
        Unit,
        /// A packet, with `at` of its units missing, and its tail.
        Packet,
        /// A word in the send ring.
        Ring,
        /// One word of a request.
        RequestWord,
        /// The number of a request: whatever stands in the slot is asked again.
        RequestNumber,
        /// A request that is nearly right, whole.
        Request,
        /// The same with only `at` of its words, the others as they were.
        HalfRequest,
        /// Nothing: the socket is closed, and another made.
        Turnover,
        /// Any word that the GPU writes.
        GpuControl,
        /// Any word that the proxy writes.
        HostControl,
        /// Any word of any ring.
        RingWord,
    }
}

impl What {
    /// Those that keep to words of one's own, the more interesting ones more often.
    pub const OWN: &'static [Self] = &[
        Self::Tail,
        Self::Tail,
        Self::Head,
        Self::Head,
        Self::Unit,
        Self::Packet,
        Self::Packet,
        Self::Ring,
        Self::RequestWord,
        Self::RequestNumber,
        Self::RequestNumber,
        Self::Request,
        Self::Request,
        Self::HalfRequest,
        Self::Turnover,
        Self::Turnover,
    ];
    /// Those that keep to nothing.
    pub const ANY: &'static [Self] =
        &[Self::GpuControl, Self::GpuControl, Self::HostControl, Self::RingWord];
}

numbered! {
    /// How a value comes about from the one that stands there.
    How {
        /// It does not: any value.
        Random,
        /// A little forwards.
        Forwards,
        /// A little backwards.
        Backwards,
        /// A little forwards, with any flags.
        Flagged,
        /// A ring forwards, give or take a little.
        Lap,
        /// What stood here or elsewhere before.
        Replay,
        /// One bit differs.
        Flip,
        /// Nothing.
        Zero,
        /// All bits.
        Ones,
        /// As large as a counter may be, or nearly.
        Large,
    }
}

impl How {
    fn of(number: u32) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }

    /// The value to write where `now` stands.
    pub(crate) fn value(number: u32, now: u64, value: u64, past: &Past) -> u64 {
        let little = value % 160;
        match Self::of(number) {
            Self::Random => value,
            Self::Forwards => now.wrapping_add(8 * little),
            Self::Backwards => now.wrapping_sub(8 * little),
            Self::Flagged => {
                Progress::new(Progress(now).count().wrapping_add(little), value >> 32 & 7).0
            }
            Self::Lap => now.wrapping_add(8 * (4096 + little)).wrapping_sub(8 * 80),
            Self::Replay => past.get(value),
            Self::Flip => now ^ 1 << (value % 64),
            Self::Zero => 0,
            Self::Ones => u64::MAX,
            Self::Large => (u64::MAX >> (value % 12)).wrapping_sub(value >> 32 & 0xFF),
        }
    }
}

/// The next mutation: of the program, round and round, or drawn, of those kinds.
pub(crate) fn next(attack: &Attack, rng: &mut Draw, step: u64, kinds: &[What]) -> Mutation {
    let length = attack.program.len() as u64;
    let drawn = attack.program.get(if length == 0 { 0 } else { (step % length) as usize });
    let mut mutation = drawn.unwrap_or_else(|| Mutation {
        what: rng.next() as u32,
        how: rng.next() as u32,
        target: rng.next() as u32,
        at: rng.next() as u32,
        value: rng.next(),
    });
    mutation.what = kinds[mutation.what as usize % kinds.len()] as u32;
    if length != 0 && step >= length {
        // The same again on other sockets, with other values.
        mutation.target = mutation.target.wrapping_add((step / length) as u32);
        mutation.value ^= rng.next();
    }
    mutation
}

/// What a mutation writes.
pub(crate) fn what(mutation: &Mutation) -> What {
    What::ALL[mutation.what as usize % What::ALL.len()]
}

/// Writes a word wherever the mutation says; how many that were.
pub(crate) fn anywhere(attack: &Attack, mutation: &Mutation, past: &mut Past) -> u64 {
    let region = match what(mutation) {
        What::HostControl => attack.host_control,
        What::RingWord => attack.rings,
        _ => attack.gpu_control,
    };
    // Not modulo: the first words of a region are drawn as often as the last.
    let at = ((u64::from(mutation.target) * region.len() as u64) >> 32) as usize;
    let Some(word) = word(region, at) else { return 0 };
    let now = word.load();
    word.store(How::value(mutation.how, now, mutation.value, past));
    past.note(now);
    1
}
