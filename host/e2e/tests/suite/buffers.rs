//! Buffers in GPU memory: what a program writes, kernels read, and the other way round; nobody has to
//! keep them for a kernel.

use gpunet_e2e::{deadline, gpu, net};
use gpunet_e2e_kernels::buffers::{Sum, add_when_told};
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{Gpu, GpuChoice, LaunchError, MemoryError, Shape, Task};

const LEN: usize = 5000;

fn numbers() -> Vec<u64> {
    (0..LEN as u64).map(|at| at * at).collect()
}

fn shape() -> Shape {
    Shape::new(3, 64)
}

#[test]
fn a_new_buffer_is_zero_and_keeps_what_is_written() {
    let buffer = gpu().buffer::<u64>(LEN).expect("memory");
    assert_eq!(buffer.to_vec().expect("all of it"), [0; LEN]);
    buffer.write(7, &[1, 2, 3]).expect("in bounds");
    buffer.write(LEN - 1, &[9]).expect("in bounds");
    let mut some = [0; 5];
    buffer.read(6, &mut some).expect("in bounds");
    assert_eq!(some, [0, 1, 2, 3, 0]);
    assert_eq!(buffer.to_vec().expect("all of it")[LEN - 1], 9);
    let bytes = gpu().buffer::<u8>(3).expect("memory");
    bytes.write(1, b"xy").expect("in bounds");
    assert_eq!(bytes.to_vec().expect("all of it"), b"\0xy");
}

#[test]
fn nothing_beyond_the_end_is_read_or_written() {
    let buffer = gpu().buffer::<u32>(8).expect("memory");
    for (offset, len) in [(8, 1), (0, 9), (9, 0), (usize::MAX, 1), (usize::MAX, 0)] {
        let (read, write) =
            (buffer.read(offset, &mut vec![1; len]), buffer.write(offset, &vec![1; len]));
        for outcome in [read, write] {
            let error = outcome.expect_err("it is beyond the end");
            assert!(matches!(error, MemoryError::OutOfRange { len: 8, .. }), "{error}");
            assert!(error.to_string().contains("of 8 elements"), "{error}");
        }
    }
    buffer.read(8, &mut []).expect("nothing, at the end");
    assert_eq!(buffer.to_vec().expect("all of it"), [0; 8]);
}

#[test]
fn a_buffer_of_nothing_goes_to_a_kernel_too() {
    let (gpu, net) = (gpu(), net());
    let (none, go) = (gpu.buffer::<u64>(0).expect("no memory"), gpu.buffer(1).expect("memory"));
    assert!(none.is_empty() && none.to_vec().expect("nothing").is_empty());
    go.write(0, &[1]).expect("in bounds");
    let sum = Sum::launch_arg(&none, 1);
    let launch = net.launch(add_when_told, shape(), (sum, &go, &none)).expect("it starts");
    launch.wait_timeout(deadline()).expect("it ends");
}

#[test]
fn more_than_there_is_is_an_error() {
    for len in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 8, 1 << 56] {
        let error = gpu().buffer::<u64>(len).expect_err("no GPU has so much");
        assert!(matches!(error, MemoryError::Refused { .. }), "{error}");
    }
}

#[test]
fn a_kernel_reads_and_writes_what_the_program_passes() {
    let (gpu, net) = (gpu(), net());
    let (input, results) = (gpu.buffer(LEN).expect("memory"), gpu.buffer(LEN).expect("memory"));
    let go = gpu.buffer(1).expect("memory");
    input.write(0, &numbers()).expect("in bounds");
    go.write(0, &[1]).expect("in bounds");
    let sum = Sum::launch_arg(&input, 5);
    // One struct for two launches.
    for added in [5, 10] {
        let launch = net.launch(add_when_told, shape(), (&sum, &go, &results)).expect("it starts");
        launch.wait_timeout(deadline()).expect("it ends");
        let expected: Vec<u64> = numbers().iter().map(|number| number + added).collect();
        assert_eq!(input.to_vec().expect("all of it"), expected);
        assert_eq!(results.to_vec().expect("all of it"), expected);
    }
}

#[test]
fn buffers_and_launches_may_go_before_the_kernel_does() {
    let (gpu, net) = (gpu(), net());
    let (input, results) = (gpu.buffer(LEN).expect("memory"), gpu.buffer(LEN).expect("memory"));
    let go = gpu.buffer(1).expect("memory");
    input.write(0, &numbers()).expect("in bounds");
    let sum = Sum::launch_arg(&input, 1);
    let launch = net.launch(add_when_told, shape(), (sum, &go, &results)).expect("it starts");
    drop(input);
    drop(launch);
    // Memory that were free would be some of these.
    let others: Vec<_> = (0..4).map(|_| gpu.buffer::<u64>(LEN).expect("memory")).collect();
    for other in &others {
        other.write(0, &[u64::MAX; LEN]).expect("in bounds");
    }
    go.write(0, &[1]).expect("in bounds");
    let expected: Vec<u64> = numbers().iter().map(|number| number + 1).collect();
    let done = || results.to_vec().expect("all of it") == expected;
    assert!(gpunet_e2e::eventually(done), "the kernel reads what was written for it");
    for other in &others {
        assert_eq!(other.to_vec().expect("all of it"), [u64::MAX; LEN]);
    }
}

#[test]
fn a_buffer_of_another_gpu_is_refused() {
    let other = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("a GPU");
    let net = net();
    let (here, there) = (gpu().buffer(1).expect("memory"), other.buffer(1).expect("memory"));
    let go = gpu().buffer(1).expect("memory");
    go.write(0, &[1]).expect("in bounds");
    for sum in [Sum::launch_arg(&there, 1), Sum::launch_arg(&here, 1)] {
        let refused = net.launch(add_when_told, shape(), (sum, &go, &there)).err();
        assert!(matches!(refused, Some(LaunchError::OtherGpu(_))), "{refused:?}");
    }
    // Nothing of it is left behind.
    let sum = Sum::launch_arg(&here, 1);
    let launch = net.launch(add_when_told, shape(), (sum, &go, &here)).expect("it starts");
    launch.wait_timeout(deadline()).expect("it ends");
}
