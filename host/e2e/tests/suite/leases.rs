//! Leases: kernels that a program puts on its own streams run on a net until the lease is closed, one of them
//! faults, or the net goes.
//!
//! On the emulated GPU, with the kernels of `images`.
#![allow(unsafe_code, reason = "launches by name")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use gpunet_e2e::{Errno, any_port, deadline, eventually, net_builder_on, peer, soon};
use gpunet_host::{
    Buffer, Gpu, GpuStream, Handle, KernelError, LaunchError, Lease, LeaseKernel, LoadedImage, Net,
    RawArguments, Shape, StreamError, StreamLimit, Task, WaitError,
};

use super::images::{NotifiesDrop, emulated, is_reached, kernels};

const MS: Duration = Duration::from_millis(1);

/// A GPU with the kernels, and a net; nothing where there is no compiler.
struct World {
    gpu: Gpu,
    image: LoadedImage,
    net: Net,
}

fn world() -> Option<World> {
    let gpu = emulated();
    let image = kernels(&gpu)?;
    let net = net_builder_on(&gpu).build().expect("a net");
    Some(World { gpu, image, net })
}

fn shape() -> Shape {
    Shape::new(1, 32)
}

fn take(world: &World, streams: &[GpuStream], names: &[&str]) -> Result<Lease, StreamError> {
    let named = |kernel| LeaseKernel::Named { image: &world.image, kernel, shape: shape() };
    let named_kernels: Vec<LeaseKernel<'_>> = names.iter().copied().map(named).collect();
    // SAFETY: its kernels are launched through it alone.
    unsafe { world.net.lease(streams, &named_kernels) }
}

fn put(
    lease: &Lease,
    stream: usize,
    image: &LoadedImage,
    kernel: &str,
    arguments: &RawArguments,
) -> Result<(), StreamError> {
    // SAFETY: what the kernels take.
    unsafe { lease.launch_raw(&lease.streams()[stream], image, kernel, shape(), arguments) }
}

fn adds(sum: &Buffer<u64>, number: u32) -> RawArguments {
    RawArguments::new().buffer(sum).bytes(&[0; 16]).value(number)
}

fn serves(listener: Handle, result: &Buffer<i64>) -> RawArguments {
    RawArguments::new().socket(listener).buffer(result)
}

/// A kernel that waits for a word, which is kept until it has ended.
fn waits(word: &Arc<AtomicU32>, sender: mpsc::Sender<()>) -> RawArguments {
    let kept: Arc<(Arc<AtomicU32>, NotifiesDrop)> =
        Arc::new((Arc::clone(word), NotifiesDrop(sender)));
    RawArguments::new().value(Arc::as_ptr(word).expose_provenance() as u64).keep(kept)
}

#[test]
fn kernels_of_two_streams_run_under_one_lease() {
    if !is_reached("leases::kernels_of_two_streams_run_under_one_lease") {
        return;
    }
    let Some(world) = world() else { return };
    let streams = [world.gpu.stream().expect("a stream"), world.gpu.stream().expect("a stream")];
    let (listener, address) = world.net.listen(any_port()).expect("it listens");
    let (sum, result) =
        (world.gpu.buffer(1).expect("memory"), world.gpu.buffer(1).expect("memory"));
    let lease = take(&world, &streams, &["echo", "add"]).expect("it is lent");
    put(&lease, 0, &world.image, "echo", &serves(listener, &result)).expect("it is put there");
    for number in 1..=10 {
        put(&lease, 1, &world.image, "add", &adds(&sum, number)).expect("it is put there");
    }
    let mut client = peer::connect(address);
    peer::send(&mut client, 0, 100);
    peer::receive(&mut client, 0, 100);
    assert!(eventually(|| sum.to_vec().expect("all of it") == [55]));
    // It lasts until it is closed and what is there is done.
    assert!(matches!(lease.wait_timeout(50 * MS), Err(WaitError::StillRunning { .. })));
    lease.close();
    assert!(!lease.is_finished(), "a client is served");
    let closed = put(&lease, 1, &world.image, "add", &adds(&sum, 1));
    assert!(matches!(closed, Err(StreamError::Closed(_))), "{closed:?}");
    drop(client);
    lease.wait_timeout(deadline()).expect("all went well");
    assert!(lease.is_finished());
    assert_eq!(result.to_vec().expect("all of it"), [0]);
    // The net is free for others.
    let args = adds(&sum, 5);
    // SAFETY: what the kernel takes.
    let again = unsafe { world.net.launch_raw(&world.image, "add", shape(), &args) };
    again.expect("it starts").wait_timeout(deadline()).expect("it ends");
    assert_eq!(sum.to_vec().expect("all of it"), [60]);
}

#[test]
fn what_cannot_run_is_refused_when_the_lease_is_taken() {
    let Some(world) = world() else { return };
    let stream = world.gpu.stream().expect("a stream");
    let none = take(&world, &[], &[]).expect_err("there is no stream");
    assert!(none.to_string().contains("a lease needs a stream"), "{none}");
    let other = emulated();
    let foreign = [other.stream().expect("a stream")];
    let error = take(&world, &foreign, &[]).expect_err("another GPU's stream");
    assert!(matches!(error, StreamError::Launch(LaunchError::OtherGpu(_))), "{error}");
    let streams = [stream];
    let error = take(&world, &streams, &["add", "absent"]).expect_err("there is none");
    assert!(matches!(error, StreamError::Launch(LaunchError::UnknownKernel { .. })), "{error}");
    let lease = |kernel| {
        // SAFETY: no kernel runs.
        unsafe { world.net.lease(&streams, &[kernel]) }
    };
    let large = Shape::new(1 << 20, 1024);
    let named = LeaseKernel::Named { image: &world.image, kernel: "add", shape: large };
    let error = lease(named).expect_err("it does not fit");
    assert!(matches!(error, StreamError::Launch(LaunchError::NotResident { .. })), "{error}");
    let named =
        LeaseKernel::Named { image: &world.image, kernel: "add", shape: Shape::new(1, 2000) };
    let error = lease(named).expect_err("no block has so many");
    assert!(matches!(error, StreamError::Launch(LaunchError::Shape(_))), "{error}");
    let error =
        lease(LeaseKernel::Function { function: 8, shape: shape() }).expect_err("no driver");
    assert!(error.to_string().contains("name a kernel of a loaded image"), "{error}");
    let image = kernels(&other).expect("there is a compiler");
    let error = lease(LeaseKernel::Named { image: &image, kernel: "add", shape: shape() });
    let error = error.expect_err("another GPU's image");
    assert!(matches!(error, StreamError::Launch(LaunchError::OtherGpu(_))), "{error}");
    // Nothing is lost with these, and a lease takes no stream that is not its own.
    for _ in 0..300 {
        take(&world, &streams, &["absent"]).expect_err("there is none");
    }
    let lease = take(&world, &streams, &["add"]).expect("it is lent");
    let sum = world.gpu.buffer(1).expect("memory");
    let other_stream = world.gpu.stream().expect("a stream");
    // SAFETY: what the kernel takes.
    let error =
        unsafe { lease.launch_raw(&other_stream, &world.image, "add", shape(), &adds(&sum, 1)) };
    assert!(matches!(error, Err(StreamError::OtherStream)), "{error:?}");
    let error = put(&lease, 0, &world.image, "add", &RawArguments::new()).expect_err("too few");
    assert!(matches!(error, StreamError::Launch(LaunchError::Parameters { .. })), "{error}");
}

#[test]
fn a_lease_is_beside_kernels_that_run() {
    let Some(world) = world() else { return };
    let word: Arc<AtomicU32> = Arc::default();
    let (sender, gone) = mpsc::channel();
    // All but one block of the GPU, if blocks are as large as they may be.
    let args = waits(&word, sender);
    let info = world.gpu.info();
    let most = Shape::new(1, info.max_threads_per_block);
    let mut launches = Vec::new();
    // SAFETY: what the kernel takes.
    while let Ok(launch) = unsafe { world.net.launch_raw(&world.image, "spin", most, &args) } {
        launches.push(launch);
        if launches.len() == 4 {
            break;
        }
    }
    let streams = [world.gpu.stream().expect("a stream")];
    let possible = (1..).map(|power| 1 << power).take_while(|blocks| {
        let shape = Shape::new(*blocks, info.max_threads_per_block);
        let kernel = LeaseKernel::Named { image: &world.image, kernel: "spin", shape };
        // SAFETY: no kernel runs under it.
        unsafe { world.net.lease(&streams, &[kernel]) }.is_ok()
    });
    let largest = possible.last().unwrap_or(1_u32);
    let shape = Shape::new(2 * largest, info.max_threads_per_block);
    let kernel = LeaseKernel::Named { image: &world.image, kernel: "spin", shape };
    // SAFETY: no kernel runs under it.
    let error = unsafe { world.net.lease(&streams, &[kernel]) }.expect_err("there is no room");
    assert!(error.to_string().contains("beside 4 running kernel(s)"), "{error}");
    word.store(1, Ordering::SeqCst);
    launches.iter().for_each(|launch| launch.wait_timeout(deadline()).expect("it ends"));
    drop(args);
    gone.recv_timeout(deadline()).expect("all have ended");
}

#[test]
fn a_fault_ends_the_lease_and_what_waits_on_its_other_streams() {
    let Some(world) = world() else { return };
    let streams = [world.gpu.stream().expect("a stream"), world.gpu.stream().expect("a stream")];
    let (listener, _) = world.net.listen(any_port()).expect("it listens");
    let (sum, result) =
        (world.gpu.buffer(1).expect("memory"), world.gpu.buffer(1).expect("memory"));
    let lease = take(&world, &streams, &["fault", "echo"]).expect("it is lent");
    put(&lease, 1, &world.image, "echo", &serves(listener, &result)).expect("it is put there");
    put(&lease, 0, &world.image, "fault", &RawArguments::new()).expect("it is put there");
    let behind = put(&lease, 0, &world.image, "add", &adds(&sum, 1));
    let error = lease.wait_timeout(deadline()).expect_err("it faults");
    let WaitError::Kernel(KernelError::Fault { kernel, message, .. }) = &error else {
        panic!("{error}")
    };
    assert!(kernel == "fault" && message.contains("no way at fault.cu:7"), "{error}");
    // Refused, or dropped when the fault came.
    assert!(
        behind.is_ok() || matches!(behind, Err(StreamError::Failed(_) | StreamError::Closed(_)))
    );
    assert_eq!(sum.to_vec().expect("all of it"), [0]);
    let cancelled = -i64::from(Errno::ECANCELED.0);
    assert_eq!(result.to_vec().expect("all of it"), [cancelled], "the other is stopped");
    let more = put(&lease, 1, &world.image, "add", &adds(&sum, 1));
    assert!(matches!(more, Err(StreamError::Closed(_))), "{more:?}");
    let error = take(&world, &streams, &[]).expect_err("the stream has faulted");
    assert!(matches!(error, StreamError::Failed(_)), "{error}");
}

#[test]
fn an_abort_ends_the_waits_of_its_kernels_alone() {
    if !is_reached("leases::an_abort_ends_the_waits_of_its_kernels_alone") {
        return;
    }
    let Some(world) = world() else { return };
    let streams = [world.gpu.stream().expect("a stream")];
    let others = [world.gpu.stream().expect("a stream")];
    let (listener, _) = world.net.listen(any_port()).expect("it listens");
    let (other, address) = world.net.listen(any_port()).expect("it listens");
    let result = [world.gpu.buffer(1).expect("memory"), world.gpu.buffer(1).expect("memory")];
    let lease = take(&world, &streams, &["echo"]).expect("it is lent");
    let well = take(&world, &others, &["echo"]).expect("it is lent");
    put(&lease, 0, &world.image, "echo", &serves(listener, &result[0])).expect("it is put there");
    put(&lease, 0, &world.image, "echo", &serves(listener, &result[0])).expect("it is put there");
    put(&well, 0, &world.image, "echo", &serves(other, &result[1])).expect("it is put there");
    lease.abort();
    lease.close();
    lease.wait_timeout(deadline()).expect("they return");
    assert_eq!(result[0].to_vec().expect("all of it"), [-i64::from(Errno::ECANCELED.0)]);
    let mut client = peer::connect(address);
    peer::send(&mut client, 0, 10);
    peer::receive(&mut client, 0, 10);
    drop(client);
    well.close();
    well.wait_timeout(deadline()).expect("it is not stopped");
    assert_eq!(result[1].to_vec().expect("all of it"), [0]);
    // Nothing happens to one that has ended, nor to what has its number now.
    let again = take(&world, &streams, &["echo"]).expect("it is lent");
    assert_eq!(again.number(), lease.number());
    lease.abort();
    put(&again, 0, &world.image, "echo", &serves(other, &result[0])).expect("it is put there");
    let mut client = peer::connect(address);
    peer::send(&mut client, 0, 10);
    peer::receive(&mut client, 0, 10);
    drop(client);
    again.close();
    again.wait_timeout(deadline()).expect("it is not stopped");
    assert_eq!(result[0].to_vec().expect("all of it"), [0]);
}

#[test]
fn what_is_queued_runs_when_the_lease_is_dropped() {
    let Some(world) = world() else { return };
    let streams = [world.gpu.stream().expect("a stream")];
    let sum = world.gpu.buffer(1).expect("memory");
    let word: Arc<AtomicU32> = Arc::default();
    let (sender, gone) = mpsc::channel();
    let lease = take(&world, &streams, &["spin", "add"]).expect("it is lent");
    put(&lease, 0, &world.image, "spin", &waits(&word, sender)).expect("it is put there");
    for _ in 0..50 {
        put(&lease, 0, &world.image, "add", &adds(&sum, 2)).expect("it is put there");
    }
    drop(lease);
    assert!(gone.recv_timeout(50 * MS).is_err(), "the kernel runs and has its memory");
    assert_eq!(sum.to_vec().expect("all of it"), [0]);
    word.store(1, Ordering::SeqCst);
    gone.recv_timeout(deadline()).expect("it has ended");
    assert!(streams[0].wait(deadline()).expect("nothing faults"));
    assert_eq!(sum.to_vec().expect("all of it"), [100]);
}

#[test]
fn a_kernel_that_never_ends_is_killed_with_its_net() {
    let Some(World { gpu, image, net }) = world() else { return };
    let world = World { gpu, image, net };
    let streams = [world.gpu.stream().expect("a stream")];
    let sum = world.gpu.buffer(1).expect("memory");
    let word: Arc<AtomicU32> = Arc::default();
    let (sender, gone) = mpsc::channel();
    let lease = take(&world, &streams, &["spin", "add"]).expect("it is lent");
    put(&lease, 0, &world.image, "spin", &waits(&word, sender)).expect("it is put there");
    put(&lease, 0, &world.image, "add", &adds(&sum, 1)).expect("it is put there");
    lease.close();
    lease.abort();
    // It does not ask whether it is to stop.
    assert!(matches!(lease.wait_timeout(100 * MS), Err(WaitError::StillRunning { .. })));
    let begin = Instant::now();
    let World { gpu, net, .. } = world;
    drop(net);
    let error = lease.wait_timeout(deadline()).expect_err("it is killed");
    assert!(matches!(error, WaitError::Kernel(KernelError::Killed { .. })), "{error}");
    assert!(begin.elapsed() < 5000 * MS + soon(), "it took {:?}", begin.elapsed());
    gone.recv_timeout(deadline()).expect("its memory goes");
    assert_eq!(sum.to_vec().expect("all of it"), [0], "nothing runs behind it");
    drop((lease, gpu));
}

#[test]
fn a_net_that_goes_ends_its_leases() {
    let Some(world) = world() else { return };
    let streams = [world.gpu.stream().expect("a stream")];
    let (listener, _) = world.net.listen(any_port()).expect("it listens");
    let result = world.gpu.buffer(1).expect("memory");
    let lease = take(&world, &streams, &["echo"]).expect("it is lent");
    let idle = take(&world, &streams, &[]).expect("it is lent");
    put(&lease, 0, &world.image, "echo", &serves(listener, &result)).expect("it is put there");
    let World { net, image, .. } = world;
    let begin = Instant::now();
    drop(net);
    assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
    lease.wait_timeout(deadline()).expect("its kernel returned");
    idle.wait_timeout(deadline()).expect("nothing ran");
    assert_eq!(result.to_vec().expect("all of it"), [-i64::from(Errno::ECANCELED.0)]);
    let more = put(&lease, 0, &image, "echo", &serves(listener, &result));
    assert!(matches!(more, Err(StreamError::Closed(_))), "{more:?}");
}

#[test]
fn leases_leave_streams_to_others() {
    let Some(world) = world() else { return };
    let streams: Vec<GpuStream> = (0..32).map(|_| world.gpu.stream().expect("a stream")).collect();
    let lease = take(&world, &streams[..30], &["add"]).expect("it is lent");
    let error = take(&world, &streams[30..31], &["add"]).expect_err("two are left to others");
    assert!(matches!(error, StreamError::Limit(StreamLimit::Streams { .. })), "{error}");
    // A part of them is not kept by one that is refused.
    let error = take(&world, &streams[29..32], &["add"]).expect_err("there is no room");
    assert!(matches!(error, StreamError::Limit(StreamLimit::Streams { .. })), "{error}");
    lease.close();
    lease.wait_timeout(deadline()).expect("nothing ran");
    let again = take(&world, &streams[2..32], &["add"]).expect("they are free");
    let sum = world.gpu.buffer(1).expect("memory");
    for stream in 0..30 {
        put(&again, stream, &world.image, "add", &adds(&sum, 0)).expect("each has its queue");
    }
    again.close();
    again.wait_timeout(deadline()).expect("all went well");
}
