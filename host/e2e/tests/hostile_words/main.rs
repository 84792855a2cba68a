//! Kernels that write nonsense into the words they share with the proxy, thousands of them.
//!
//! What is written only to a socket's own words, and to request slots that the kernel has claimed,
//! harms only that socket: others on the same net go on, checked byte by byte. What is written
//! anywhere leaves the proxy running, in bounds and in its sockets' accounts.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_HOSTILE_WORDS` | words that each test writes at least: 25,000, in a long run 500,000 |
//! | `GPUNET_SEED` | run one case, as a failure names it |

mod bystanders;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpunet_e2e::attack::{Attack, Report};
use gpunet_e2e::{
    Job, Script, deadline, eventually, heap, is_local, is_rdma, long, process, scaled_time, skip,
};
use gpunet_e2e_kernels::hostile::{How, Mutation, What};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use bystanders::Bystanders;
use world::{SINK_BYTES, World};

/// Words of a case that the kernel draws.
const DRAWN: u64 = 12_000;
/// Words of a case whose program proptest draws.
const PROGRAMMED: u64 = 1_500;
/// How many bytes more may be allocated or mapped after the last case than after the first.
const GROWTH: u64 = 256 << 10;

/// Counts the heap: resident memory differs from run to run by what the allocator keeps.
#[global_allocator]
static HEAP: heap::Counted = heap::Counted;

/// Descriptors and memory are the whole process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn words() -> u64 {
    long::count("GPUNET_HOSTILE_WORDS", 25_000, 500_000)
}

/// A program of mutations of these kinds, drawn from a seed.
fn program(seed: u64, kinds: usize) -> Vec<Mutation> {
    let mutation =
        (0..kinds as u32, 0..How::ALL.len() as u32, any::<u32>(), any::<u32>(), values())
            .prop_map(|(what, how, target, at, value)| Mutation { what, how, target, at, value });
    let programs = prop::collection::vec(mutation, 1..60);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    programs.new_tree(&mut runner).expect("nothing is refused").current()
}

/// Numbers near those that mean something, or any.
fn values() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..5000_u64,
        (0..64_u32, any::<bool>()).prop_map(|(bit, below)| (1_u64 << bit) - u64::from(below)),
    ]
}

fn attack(world: &World, seed: u64, program: Vec<Mutation>, words: u64) -> Attack {
    Attack {
        blocks: 2,
        seed,
        program,
        words,
        limit: deadline(),
        given: world.given(),
        sink: world::sink(),
        home: world::home(),
    }
}

/// Runs cases until there are enough words, and looks at what is left of them.
fn campaign(test: &str, mut case: impl FnMut(u64) -> u64) {
    let _alone = alone();
    world::sink();
    // The first case opens the GPU, and makes what the process keeps.
    let mut first = None;
    long::cases(test, words(), |seed| {
        let written = case(seed);
        let (descriptors, _) = *first.get_or_insert_with(|| (process::descriptors(), memory()));
        let back = || process::descriptors() <= descriptors;
        assert!(eventually(back), "{} descriptors, {descriptors} before", process::descriptors());
        written
    });
    let (_, before) = first.unwrap_or_default();
    let now = memory();
    println!("{test}: {before} bytes after the first case, {now} after the last");
    assert!(now <= before + GROWTH, "the process grew from {before} to {now} bytes");
}

/// Bytes that are allocated, and that nets have mapped.
fn memory() -> u64 {
    heap::live() + process::mapped()
}

/// One attack on the kernel's own words, beside streams that must not notice.
fn own_case(seed: u64, program: Vec<Mutation>, words: u64) -> u64 {
    let world = World::new();
    let bystanders = Bystanders::start(&world.net, deadline());
    let attack = attack(&world, seed, program, words);
    let report = attack.own(&world.net);
    assert!(report.words >= words, "{report:?}");
    assert_eq!(report.unanswered, 0, "every request is answered: {report:?}");
    // The bad words still stand there, and nothing happens any more.
    bystanders.pause();
    world.sleeps_while_kernels_run();
    bystanders.finish();
    world.answers(&attack);
    let statistics = world.net.statistics();
    let opened = report.sockets + world.given().len() as u64 + statistics.accepted;
    assert!(statistics.violations <= opened, "{report:?} {statistics:?}");
    // A program may be so harmless that nothing was wrong with it; in thousands of words something is.
    assert!(statistics.violations > 0 || words < DRAWN, "{report:?} {statistics:?}");
    world.serves();
    world.all_comes_back();
    report.words
}

#[test]
fn own_words_drawn_by_the_kernel_harm_nobody_else() {
    campaign("own words, drawn by the kernel", |seed| own_case(seed, Vec::new(), DRAWN));
}

#[test]
fn own_words_of_drawn_programs_harm_nobody_else() {
    campaign("own words, drawn programs", |seed| {
        let program = program(seed, What::OWN.len());
        let shown = format!("{program:?}");
        showing(&shown, || own_case(seed, program, PROGRAMMED))
    });
}

/// One attack on all words.
fn any_case(seed: u64, program: Vec<Mutation>, words: u64) -> u64 {
    let mut world = World::new();
    world.send_to_all();
    let attack = attack(&world, seed, program, words);
    let report: Report = attack.any(&world.net);
    assert!(report.words >= words, "{report:?}");
    world.answers(&attack);
    world.all_comes_back();
    report.words
}

#[test]
fn any_word_drawn_by_the_kernel_leaves_the_proxy_running() {
    campaign("any word, drawn by the kernel", |seed| any_case(seed, Vec::new(), DRAWN));
}

#[test]
fn any_word_of_drawn_programs_leaves_the_proxy_running() {
    campaign("any word, drawn programs", |seed| {
        let program = program(seed, What::ANY.len());
        let shown = format!("{program:?}");
        showing(&shown, || any_case(seed, program, PROGRAMMED))
    });
}

/// Shows the program of a case that fails.
fn showing<T>(program: &str, case: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(case)).unwrap_or_else(|panic| {
        eprintln!("the program was {program}");
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn a_seed_stands_for_a_program() {
    let shown = |seed| format!("{:?}", program(seed, What::OWN.len()));
    assert_eq!(shown(5), shown(5));
    assert_ne!(shown(5), shown(6));
}

/// The harness can fail: an attack on the words of a bystander's stream is detected.
#[test]
fn an_attack_on_a_bystander_is_detected() {
    if is_rdma() {
        let name = "an_attack_on_a_bystander_is_detected";
        return skip(name, "the harness is the same by TCP, whose peers wait for a second only");
    }
    let _alone = alone();
    world::sink();
    // By p2p the first attack that is drawn harms nobody; a later one does.
    let harmed = (1..=if is_local() { 16 } else { 1 }).any(|seed| {
        let world = World::new();
        let bystanders = Bystanders::start(&world.net, scaled_time(Duration::from_secs(1)));
        let mut attack = attack(&world, seed, Vec::new(), 2000);
        attack.given = bystanders.handles();
        let _ = attack.own(&world.net);
        bystanders.was_harmed()
    });
    assert!(harmed);
}

/// The sink's bytes reach a correct kernel, so that heads move in an attack.
#[test]
fn the_sink_sends_and_takes() {
    let net = gpunet_e2e::net();
    let mut script = Script::new();
    script.stream(0, world::sink()).recv_all(0, SINK_BYTES as u64, 64).send(0, 100).close(0);
    Job::blocks(32).script(&script).run(&net);
}
