//! Images of kernels in other languages: shared objects and functions on the emulated GPU, launched by name
//! with arguments as bytes; and what is refused, with whose fault it is.
//!
//! The kernels are in C (`images/kernels.c`), which calls device functions by the names that this program
//! exports, as libgpunet does.
#![allow(unsafe_code, reason = "functions for kernels of other languages, and launches by name")]

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use gpunet_e2e::{
    Errno, Folder, any_port, deadline, eventually, gpu, is_cuda, net_builder_on, peer, skip,
};
use gpunet_host::gpu::{EmulatedOptions, KernelRecord};
use gpunet_host::{
    Gpu, GpuChoice, Image, KernelError, LaunchError, LoadError, LoadedImage, Net, RawArguments,
    RawKernel, Shape, StreamError, Task, WaitError,
};

gpunet_device::export_c_abi!();

/// The source of the kernels.
const KERNELS: &str = include_str!("images/kernels.c");

/// Compiles the kernels with these options; nothing where there is no compiler.
fn compile(name: &str, options: &[&str]) -> Option<(Folder, PathBuf)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = Folder::new(&format!("images-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let (source, object) = (folder.path(&format!("{name}.c")), folder.path(&format!("{name}.so")));
    std::fs::write(&source, KERNELS).expect("the source is written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-fexceptions", "-O1", "-o"]).arg(&object).arg(&source);
    match compiler.args(options).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "the kernels do not compile: {said}");
            Some((folder, object))
        }
        Err(error) => {
            skip(&format!("images::{name}"), &format!("no C compiler: {error}"));
            None
        }
    }
}

pub(super) fn emulated() -> Gpu {
    Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("the emulated GPU opens")
}

/// Whether a peer of this run reaches the emulated GPU: kernels of a CUDA device do not.
pub(super) fn is_reached(test: &str) -> bool {
    let other = is_cuda() && gpunet_e2e::is_local();
    if other {
        skip(test, "peers are kernels of another GPU");
    }
    !other
}

fn load(gpu: &Gpu, name: &str, image: Image) -> Result<LoadedImage, LoadError> {
    // SAFETY: the kernels of these tests, whose records are right where they are loaded.
    unsafe { gpu.load_image(name, image) }
}

/// The kernels on a GPU; nothing where there is no compiler.
pub(super) fn kernels(gpu: &Gpu) -> Option<LoadedImage> {
    let (_folder, object) = compile("kernels", &[])?;
    Some(load(gpu, "kernels", Image::SharedObject(object)).expect("the kernels load"))
}

fn launch(
    net: &Net,
    image: &LoadedImage,
    kernel: &str,
    arguments: &RawArguments,
) -> Result<gpunet_host::Launch, LaunchError> {
    // SAFETY: what the kernels take, where the sizes are right.
    unsafe { net.launch_raw(image, kernel, Shape::new(1, 64), arguments) }
}

#[test]
fn a_kernel_of_a_shared_object_serves_a_client() {
    if !is_reached("images::a_kernel_of_a_shared_object_serves_a_client") {
        return;
    }
    let gpu = emulated();
    let Some(image) = kernels(&gpu) else { return };
    let net = net_builder_on(&gpu).build().expect("a net");
    let (listener, address) = net.listen(any_port()).expect("it listens");
    let result = gpu.buffer::<i64>(1).expect("memory");
    result.write(0, &[-1]).expect("in bounds");
    let arguments = RawArguments::new().socket(listener).buffer(&result);
    let served = launch(&net, &image, "echo", &arguments).expect("it starts");
    assert_eq!(served.kernel(), "echo");
    let mut client = peer::connect(address);
    let mut position = 0;
    for round in 0..20 {
        let length = 1 + round * 12;
        peer::send(&mut client, position, length);
        peer::receive(&mut client, position, length);
        position += length as u64;
    }
    drop(client);
    served.wait_timeout(deadline()).expect("it ends");
    assert_eq!(result.to_vec().expect("all of it"), [0]);
}

#[test]
fn structs_and_numbers_arrive_as_they_were_given() {
    let gpu = emulated();
    let Some(image) = kernels(&gpu) else { return };
    let net = net_builder_on(&gpu).build().expect("a net");
    let sum = gpu.buffer::<u64>(1).expect("memory");
    let mut numbers = [0; 16];
    numbers[0] = 7;
    numbers[8..].copy_from_slice(&35.0_f64.to_ne_bytes());
    let arguments = RawArguments::new().buffer(&sum).bytes(&numbers).value(400_000_000_u32);
    for _ in 0..2 {
        launch(&net, &image, "add", &arguments)
            .expect("it starts")
            .wait_timeout(deadline())
            .expect("it ends");
    }
    assert_eq!(sum.to_vec().expect("all of it"), [2 * 400_000_042]);
    let sizes = [16, 8, 16, 4].as_slice();
    assert_eq!(image.parameters("add").expect("it is there"), Some(sizes));
    let all: Vec<&str> = image.kernels().collect();
    assert_eq!(all, ["add", "differ", "echo", "fault", "spin"]);
    assert_eq!(image.cuda_function("add", 1).expect("it is there"), None);
}

#[test]
fn a_queue_runs_kernels_of_images_in_order() {
    let gpu = emulated();
    let Some(image) = kernels(&gpu) else { return };
    let net = net_builder_on(&gpu).build().expect("a net");
    let stream = gpu.stream().expect("a stream");
    let queue = net.queue(&stream).expect("a queue");
    let sum = gpu.buffer::<u64>(1).expect("memory");
    let (sender, gone) = mpsc::channel();
    let kept = Arc::new(NotifiesDrop(sender));
    let arguments = RawArguments::new().buffer(&sum).bytes(&[0; 16]).value(5_u32).keep(kept);
    let put = |kernel| {
        // SAFETY: what the kernels take, where the sizes are right.
        unsafe { queue.launch_raw(&image, kernel, Shape::new(1, 64), &arguments) }
    };
    for _ in 0..3 {
        put("add").expect("it is put there");
    }
    assert!(matches!(put("sub"), Err(StreamError::Launch(LaunchError::UnknownKernel { .. }))));
    assert!(matches!(put("echo"), Err(StreamError::Launch(LaunchError::Parameters { .. }))));
    assert!(stream.wait(deadline()).expect("no fault"));
    assert_eq!(sum.to_vec().expect("all of it"), [15]);
    drop(arguments);
    gone.recv_timeout(deadline()).expect("what the kernels kept is let go of");
}

#[test]
fn arguments_of_other_sizes_are_refused() {
    let gpu = emulated();
    let Some(image) = kernels(&gpu) else { return };
    let net = net_builder_on(&gpu).build().expect("a net");
    let (sum, none) = (gpu.buffer::<u64>(1).expect("memory"), RawArguments::new());
    let few = none.clone().buffer(&sum).bytes(&[0; 16]);
    let many = few.clone().value(1_u32).value(1_u32);
    let wide = few.clone().value(1_u64);
    for (arguments, given) in [
        (&none, "[16]"),
        (&few, "[16, 8, 16]"),
        (&many, "[16, 8, 16, 4, 4]"),
        (&wide, "[16, 8, 16, 8]"),
    ] {
        let error = launch(&net, &image, "add", arguments).expect_err("they do not fit");
        assert!(matches!(error, LaunchError::Parameters { .. }), "{error}");
        let said = error.to_string();
        assert!(
            said.contains("[16, 8, 16, 4]") && said.contains(&format!("given {given}")),
            "{said}"
        );
    }
    let error = launch(&net, &image, "sub", &none).expect_err("there is none");
    let said = error.to_string();
    assert!(said.contains("no kernel 'sub' (it has: add, differ, echo, fault, spin)"), "{said}");
    // No slot is lost with a launch that is refused.
    for _ in 0..200 {
        launch(&net, &image, "sub", &none).expect_err("there is none");
    }
    launch(&net, &image, "add", &few.value(1_u32))
        .expect("it starts")
        .wait_timeout(deadline())
        .expect("it ends");
    assert_eq!(sum.to_vec().expect("all of it"), [1]);
}

#[test]
fn faults_and_disagreement_name_lines_of_the_kernel() {
    for (kernel, expected) in [("fault", "no way at fault.cu:7"), ("differ", "at differ.cu:42")] {
        let gpu = emulated();
        let Some(image) = kernels(&gpu) else { return };
        let net = net_builder_on(&gpu).build().expect("a net");
        let started = launch(&net, &image, kernel, &RawArguments::new()).expect("it starts");
        let error = started.wait_timeout(deadline()).expect_err("it faults");
        assert!(matches!(error, WaitError::Kernel(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn objects_that_cannot_be_served_are_refused() {
    let gpu = emulated();
    let refused = |name: &str, options: &[&str]| {
        let (_folder, object) = compile(name, options)?;
        Some(load(&gpu, name, Image::SharedObject(object)).expect_err("it is refused"))
    };
    let Some(error) = refused("newer", &["-DMAJOR=3"]) else { return };
    assert!(matches!(error, LoadError::Version(_)), "{error}");
    assert!(error.to_string().contains("(3.0, this program has 1."), "{error}");
    let error = refused("unmarked", &["-DWITHOUT_MARK"]).expect("there is a compiler");
    assert!(error.to_string().contains("does not say which"), "{error}");
    let error = refused("missing", &["-DMISSING"]).expect("there is a compiler");
    let LoadError::MissingSymbols { symbols, .. } = &error else { panic!("{error}") };
    assert_eq!(symbols, "not_anywhere");
    let error = refused("without_net", &["-DWITHOUT_NET"]).expect("there is a compiler");
    assert!(error.to_string().contains("'without_net' takes parameters of [8] bytes"), "{error}");
    let error = refused("empty", &["-fvisibility=hidden"]).expect("there is a compiler");
    // Neither records nor the mark are seen from outside.
    assert!(matches!(error, LoadError::Version(_)), "{error}");
}

#[test]
fn what_is_no_image_for_this_gpu_says_what_is_wanted() {
    let gpu = emulated();
    for image in
        [Image::Ptx(".version 8.0".to_owned()), Image::Cubin(vec![1]), Image::Fatbin(vec![1])]
    {
        let error = load(&gpu, "i", image).expect_err("it is for CUDA");
        assert!(matches!(error, LoadError::Image(_)), "{error}");
        assert!(
            error.to_string().ends_with("(emulated) takes a shared object or functions"),
            "{error}"
        );
    }
    let absent = load(&gpu, "i", Image::SharedObject("/nowhere/it.so".into()));
    assert!(
        absent.expect_err("it is not there").to_string().contains("/nowhere/it.so: No such file")
    );
    let folder = Folder::new("no-object");
    let text = folder.path("kernels.c");
    std::fs::write(&text, KERNELS).expect("the source is written");
    let none = load(&gpu, "i", Image::SharedObject(text)).expect_err("it is no object");
    assert!(none.to_string().contains("which is no shared object"), "{none}");
    let none = load(&gpu, "i", Image::Functions(Vec::new())).expect_err("nothing to launch");
    assert!(matches!(none, LoadError::Image(_)), "{none}");
    if is_cuda() {
        let error =
            load(self::gpu(), "i", Image::SharedObject("x.so".into())).expect_err("wrong GPU");
        assert!(error.to_string().ends_with("(cuda) takes PTX, a cubin or a fatbin"), "{error}");
    }
}

#[test]
fn an_image_is_for_its_own_gpu() {
    let (gpu, other) = (emulated(), emulated());
    let image = load(&gpu, "here", functions()).expect("it loads");
    let net = net_builder_on(&other).build().expect("a net");
    let error =
        launch(&net, &image, "set", &RawArguments::new().value(0_u64)).expect_err("another GPU's");
    assert!(matches!(error, LaunchError::OtherGpu(_)), "{error}");
    let net = net_builder_on(&gpu).build().expect("a net");
    let buffer = other.buffer::<u32>(1).expect("memory");
    let error =
        launch(&net, &image, "set", &RawArguments::new().buffer(&buffer)).expect_err("so is it");
    assert!(matches!(error, LaunchError::OtherGpu(_)), "{error}");
}

unsafe extern "C-unwind" fn set(parameters: *const *mut c_void) {
    // SAFETY: a net and the address of a word, as the kernel says it takes.
    let word = unsafe { *(*parameters.add(1)).cast::<*const AtomicU32>() };
    // SAFETY: the word outlives the kernel.
    unsafe { (*word).fetch_add(1, Ordering::SeqCst) };
}

unsafe extern "C-unwind" fn panics(_: *const *mut c_void) {
    panic!("a function of the program's");
}

unsafe extern "C-unwind" fn waits(parameters: *const *mut c_void) {
    // SAFETY: as in `set`.
    let word = unsafe { *(*parameters.add(1)).cast::<*const AtomicU32>() };
    // SAFETY: as in `set`.
    while unsafe { (*word).load(Ordering::SeqCst) } == 0 {
        gpunet_device::simt::pause();
    }
}

fn functions() -> Image {
    // SAFETY: functions of this program, which take these.
    let kernel = |name, entry| unsafe { RawKernel::new(name, entry, [16, 8], None) };
    Image::Functions(vec![kernel("set", set), kernel("panics", panics), kernel("waits", waits)])
}

#[test]
fn functions_of_the_program_are_kernels() {
    let gpu = emulated();
    let image = load(&gpu, "functions", functions()).expect("they load");
    let net = net_builder_on(&gpu).build().expect("a net");
    let word = AtomicU32::new(0);
    let arguments = RawArguments::new().value((&raw const word).expose_provenance() as u64);
    let set = launch(&net, &image, "set", &arguments).expect("it starts");
    set.wait_timeout(deadline()).expect("it ends");
    assert_eq!(word.load(Ordering::SeqCst), 64);
    let error =
        launch(&net, &image, "panics", &arguments).expect("it starts").wait_timeout(deadline());
    let error = error.expect_err("it panics");
    let WaitError::Kernel(KernelError::Fault { message, .. }) = &error else { panic!("{error}") };
    assert!(message.contains("a function of the program's"), "{message}");
    // SAFETY: never called.
    let twice = unsafe { RawKernel::new("a", self::set, [16], None) };
    let error =
        load(&gpu, "twice", Image::Functions(vec![twice.clone(), twice])).expect_err("one name");
    assert!(error.to_string().contains("two kernels named 'a'"), "{error}");
}

/// Sends when it is dropped.
pub(super) struct NotifiesDrop(pub(super) mpsc::Sender<()>);

impl Drop for NotifiesDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn what_arguments_name_is_kept_until_the_kernel_has_ended() {
    let gpu = emulated();
    let image = load(&gpu, "kept", functions()).expect("they load");
    let net = net_builder_on(&gpu).build().expect("a net");
    let word: Arc<AtomicU32> = Arc::default();
    let (sender, gone) = mpsc::channel();
    let memory: Arc<(Arc<AtomicU32>, NotifiesDrop)> =
        Arc::new((Arc::clone(&word), NotifiesDrop(sender)));
    let address = Arc::as_ptr(&word).expose_provenance() as u64;
    let arguments = RawArguments::new().value(address).keep(memory);
    let launch = launch(&net, &image, "waits", &arguments).expect("it starts");
    drop((arguments, launch, image));
    assert!(gone.recv_timeout(Duration::from_millis(100)).is_err(), "the kernel runs");
    word.store(1, Ordering::SeqCst);
    gone.recv_timeout(deadline()).expect("the kernel has ended");
    assert!(eventually(|| Arc::strong_count(&word) == 1));
}

#[test]
fn a_net_that_goes_first_ends_its_kernels_and_lets_memory_go() {
    let gpu = emulated();
    let image = load(&gpu, "orphan", functions()).expect("they load");
    let net = net_builder_on(&gpu).build().expect("a net");
    let word: Arc<AtomicU32> = Arc::default();
    let (sender, gone) = mpsc::channel();
    let memory: Arc<(Arc<AtomicU32>, NotifiesDrop)> =
        Arc::new((Arc::clone(&word), NotifiesDrop(sender)));
    let address = Arc::as_ptr(&word).expose_provenance() as u64;
    let arguments = RawArguments::new().value(address).keep(memory);
    let launch = launch(&net, &image, "waits", &arguments).expect("it starts");
    drop(arguments);
    // It does not ask whether it is to stop: the net kills it.
    drop(net);
    let error = launch.wait_timeout(deadline()).expect_err("it is killed");
    assert!(matches!(error, WaitError::Kernel(KernelError::Killed { .. })), "{error}");
    drop(launch);
    gone.recv_timeout(deadline()).expect("nothing uses it");
}

#[test]
fn a_socket_among_the_arguments_is_the_launches() {
    let gpu = emulated();
    let image = load(&gpu, "faulty", functions()).expect("they load");
    let net = net_builder_on(&gpu).build().expect("a net");
    let (listener, _) = net.listen(any_port()).expect("it listens");
    // A proxy that looks for a peer has one socket more for a moment.
    assert!(eventually(|| net.statistics().sockets == 1), "the listener is open");
    // One that runs on, so that the net does not close all listeners with its last kernel.
    let word: Arc<AtomicU32> = Arc::default();
    let address = Arc::as_ptr(&word).expose_provenance() as u64;
    let other = RawArguments::new().value(address).keep(Arc::clone(&word) as _);
    let other = launch(&net, &image, "waits", &other).expect("it starts");
    let arguments = RawArguments::new().socket(listener);
    let failed = launch(&net, &image, "panics", &arguments).expect("it starts");
    failed.wait_timeout(deadline()).expect_err("it panics");
    assert!(eventually(|| net.statistics().sockets == 0), "the listener is closed");
    word.store(1, Ordering::SeqCst);
    other.wait_timeout(deadline()).expect("it ends");
}

/// Kernels of an object without unwind tables, as functions: what a compiler at run time gives.
fn without_unwinding(names: &[&str]) -> Option<Image> {
    let tables = ["-fno-exceptions", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"];
    let (_folder, object) = compile("without_tables", &tables)?;
    let path = CString::new(object.as_os_str().as_encoded_bytes()).expect("no zero in it");
    // SAFETY: an object of this test, which stays loaded.
    let object = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!object.is_null(), "it loads");
    let kernel = |name: &&str| {
        let symbol = CString::new(format!("gpunet_kernel_{name}")).expect("no zero in it");
        // SAFETY: the object has such a record.
        let record = unsafe { &*libc::dlsym(object, symbol.as_ptr()).cast::<KernelRecord>() };
        // SAFETY: it names so many sizes.
        let sizes = unsafe { std::slice::from_raw_parts(record.sizes, record.count as usize) };
        let sizes: Vec<usize> = sizes.iter().map(|bytes| *bytes as usize).collect();
        // SAFETY: what the record says.
        let kernel = unsafe { RawKernel::new(*name, record.entry.expect("an entry"), sizes, None) };
        kernel.without_unwinding()
    };
    Some(Image::Functions(names.iter().map(kernel).collect()))
}

#[test]
fn kernels_that_cannot_be_unwound_end_all_the_same() {
    let Some(image) = without_unwinding(&["fault", "differ", "spin", "echo"]) else { return };
    let gpu = emulated();
    let image = load(&gpu, "without_tables", image).expect("they load");
    for (kernel, expected) in [
        ("fault", "in block 0, thread 0: panic: no way at fault.cu:7"),
        ("differ", "is in gaccept(1) at differ.cu:42"),
    ] {
        let net = net_builder_on(&gpu).build().expect("a net");
        let started = launch(&net, &image, kernel, &RawArguments::new()).expect("it starts");
        let error = started.wait_timeout(deadline()).expect_err("it faults");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // One that is killed in a call of its own, and one that is stopped in a call of the library.
    let net = net_builder_on(&gpu).build().expect("a net");
    let word: Arc<AtomicU32> = Arc::default();
    let address = Arc::as_ptr(&word).expose_provenance() as u64;
    let spins = RawArguments::new().value(address).keep(Arc::clone(&word) as _);
    let spins = launch(&net, &image, "spin", &spins).expect("it starts");
    let (listener, _) = net.listen(any_port()).expect("it listens");
    let result = gpu.buffer::<i64>(1).expect("memory");
    let serves = RawArguments::new().socket(listener).buffer(&result);
    let serves = launch(&net, &image, "echo", &serves).expect("it starts");
    drop(net);
    serves.wait_timeout(deadline()).expect("it returns");
    assert_eq!(result.to_vec().expect("all of it"), [-i64::from(Errno::ECANCELED.0)]);
    let error = spins.wait_timeout(deadline()).expect_err("it is killed");
    assert!(matches!(error, WaitError::Kernel(KernelError::Killed { .. })), "{error}");
    // The GPU is well.
    let net = net_builder_on(&gpu).build().expect("a net");
    word.store(1, Ordering::SeqCst);
    let again = RawArguments::new().value(address);
    launch(&net, &image, "spin", &again)
        .expect("it starts")
        .wait_timeout(deadline())
        .expect("it ends");
}
