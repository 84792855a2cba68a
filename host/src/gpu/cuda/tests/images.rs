//! Images of other languages on a real GPU, and leases for kernels that the program launches itself.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUjitInputType, CUresult};

use super::super::super::image::LoadedImage;
use super::super::super::lease::Lease;
use super::super::super::library::LIBRARY;
use super::super::super::{GpuStream, Image, StreamError};
use super::*;

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

/// A kernel that calls the device library.
const TIME: &str = r"
.extern .func (.param .b64 result) gpunet_time (.param .b64 a, .param .b64 b, .param .b32 group);
.visible .entry time(.param .align 8 .b8 net[16], .param .u64 to) {
    .reg .b64 %a, %b, %r, %to; .reg .b32 %g;
    ld.param.u64 %a, [net];
    ld.param.u64 %b, [net+8];
    ld.param.u64 %to, [to];
    mov.u32 %g, 0;
    {
        .param .b64 a; .param .b64 b; .param .b32 g; .param .b64 r;
        st.param.b64 [a], %a;
        st.param.b64 [b], %b;
        st.param.b32 [g], %g;
        call.uni (r), gpunet_time, (a, b, g);
        ld.param.b64 %r, [r];
    }
    st.u64 [%to], %r;
    ret;
}
";

/// One that calls what is nowhere.
const LOST: &str = r"
.extern .func lost ();
.visible .entry loses() {
    call.uni lost;
    ret;
}
";

fn mark(major: u32) -> String {
    format!(".visible .global .align 4 .u32 gpunet_c_abi[2] = {{{major}, 0}};\n")
}

fn load(gpu: &Gpu, name: &str, image: Image) -> Result<LoadedImage, LoadError> {
    // SAFETY: no shared object.
    unsafe { gpu.load_image(name, image) }
}

/// Machine code for this GPU, as its driver makes it. The context is current.
fn cubin(text: &str) -> Vec<u8> {
    let ok = |result| assert_eq!(result, CUresult::CUDA_SUCCESS);
    let text = std::ffi::CString::new(text).unwrap();
    let (mut state, mut code, mut bytes) = (ptr::null_mut(), ptr::null_mut(), 0);
    let data = text.as_bytes_with_nul();
    // SAFETY: no options; the text ends in a zero; the code lives as long as the link.
    unsafe {
        ok(sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &mut state));
        ok(sys::cuLinkAddData_v2(
            state,
            CUjitInputType::CU_JIT_INPUT_PTX,
            data.as_ptr().cast_mut().cast(),
            data.len(),
            c"kernels".as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        ));
        ok(sys::cuLinkComplete(state, &mut code, &mut bytes));
        let copy = std::slice::from_raw_parts(code.cast::<u8>(), bytes).to_vec();
        ok(sys::cuLinkDestroy(state));
        copy
    }
}

/// Has a kernel of an image fill memory.
fn fills(gpu: &Gpu, image: &str) {
    let memory = gpu.host_memory(4096).unwrap();
    let params: [&[u8]; 2] = [&address(memory.device_ptr()), &7_u32.to_le_bytes()];
    let spec = LaunchSpec {
        module: image.into(),
        kernel: "fill".into(),
        grid: 1.into(),
        block: 32.into(),
        shared_bytes: 0,
        params: params.iter().map(|bytes| (*bytes).into()).collect(),
        entry: Arc::new(|| unreachable!("no emulated thread here")),
    };
    assert_eq!(finish(&gpu.launch(spec).unwrap()), Ok(WaitOutcome::Finished));
    assert_eq!(word(&memory).load(SeqCst), 7);
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn images_of_ptx_and_of_machine_code_have_the_same_kernels() {
    let (_alone, gpu) = device();
    let text = format!("{HEAD}{}{KERNELS}", mark(1));
    let binary = Image::bytes(cubin(&text)).unwrap();
    assert!(matches!(binary, Image::Cubin(_)));
    let ptx = Image::bytes(text.clone()).unwrap();
    for (name, image) in [("image-ptx", ptx), ("image-cubin", binary)] {
        let loaded = load(&gpu, name, image.clone()).unwrap();
        let kernels: Vec<&str> = loaded.kernels().collect();
        assert_eq!(kernels, ["bad_address", "begin_and_spin", "fill", "panics", "shared", "spin"]);
        assert_eq!(loaded.parameters("fill").unwrap(), Some([8, 4].as_slice()));
        assert!(loaded.cuda_function("fill", 32).unwrap().is_some());
        fills(&gpu, name);
        // The same again does nothing, another under that name is refused.
        load(&gpu, name, image).unwrap();
        let other = Image::Ptx(format!("{text}// other\n"));
        let error = load(&gpu, name, other).unwrap_err();
        assert!(matches!(error, LoadError::Conflict(_)), "{error}");
    }
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn images_for_other_versions_are_refused() {
    let (_alone, gpu) = device();
    let text = format!("{HEAD}{}{KERNELS}", mark(9));
    for image in [Image::Ptx(text.clone()), Image::Cubin(cubin(&text))] {
        let error = load(&gpu, "newer", image).unwrap_err();
        assert!(matches!(error, LoadError::Version(_)), "{error}");
        assert!(error.to_string().contains("(9.0, this program has 1."), "{error}");
    }
    let [a, b, c, d] = ABI;
    let library = format!(
        ".visible .global .align 4 .u32 GPUNET_LIBRARY_ABI[4] = {{{a}, {}, {c}, {d}}};\n",
        b + 1
    );
    let text = format!("{HEAD}{}{library}{KERNELS}", mark(1));
    for image in [Image::Ptx(text.clone()), Image::Cubin(cubin(&text))] {
        let error = load(&gpu, "old library", image).unwrap_err();
        assert!(matches!(error, LoadError::Version(_)), "{error}");
    }
    let error = load(&gpu, "unmarked", Image::Ptx(format!("{HEAD}{TIME}"))).unwrap_err();
    assert!(matches!(error, LoadError::Version(_)), "{error}");
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn images_are_linked_with_the_library_and_nothing_else() {
    let (_alone, gpu) = device();
    if LIBRARY.text().is_ok() {
        let text = format!("{HEAD}{}{TIME}", mark(1));
        let loaded = load(&gpu, "calls", Image::Ptx(text)).unwrap();
        assert_eq!(loaded.parameters("time").unwrap(), Some([16, 8].as_slice()));
    }
    let error = load(&gpu, "lost", Image::Ptx(format!("{HEAD}{LOST}"))).unwrap_err();
    let LoadError::MissingSymbols { symbols, .. } = &error else { panic!("{error}") };
    assert_eq!(symbols, "lost");
    let error = load(&gpu, "object", Image::SharedObject("kernels.so".into())).unwrap_err();
    assert!(error.to_string().ends_with("(cuda) takes PTX, a cubin or a fatbin"), "{error}");
    let flag = gpu.host_memory(4096).unwrap();
    let running = spin(&gpu, &flag, 1, 32).unwrap();
    let error = load(&gpu, "late", Image::Ptx(format!("{HEAD}{KERNELS}"))).unwrap_err();
    assert!(matches!(error, LoadError::WhileRunning { running: 1, .. }), "{error}");
    word(&flag).store(1, SeqCst);
    assert_eq!(finish(&running), Ok(WaitOutcome::Finished));
}

/// A stream of the program's own.
struct RawStream(sys::CUstream);

impl RawStream {
    fn new() -> Self {
        let mut stream = ptr::null_mut();
        // SAFETY: writes one handle. 1: in no order with the default stream.
        assert_eq!(unsafe { sys::cuStreamCreate(&mut stream, 1) }, CUresult::CUDA_SUCCESS);
        Self(stream)
    }

    fn of(&self, gpu: &Gpu) -> Option<GpuStream> {
        // SAFETY: a stream of the primary context, destroyed by nobody.
        match unsafe { gpu.stream_from_raw(self.0.expose_provenance()) } {
            // Without PTX there is no kernel of streams.
            Err(StreamError::Load(LoadError::Image(_))) => None,
            stream => Some(stream.unwrap()),
        }
    }

    /// Launches a kernel that waits for a word, as a program does.
    fn spin(&self, gpu: &Gpu, flag: &HostMemory) {
        let function = gpu.inner.cuda_function("tests", "spin", 32).unwrap().unwrap();
        let mut word = flag.device_ptr().addr() as u64;
        let mut params = [(&raw mut word).cast::<c_void>()];
        // SAFETY: a function of the module, with its one parameter, which the driver copies.
        let launched = unsafe {
            sys::cuLaunchKernel(
                ptr::with_exposed_provenance_mut(function),
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                self.0,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        assert_eq!(launched, CUresult::CUDA_SUCCESS);
    }
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn a_lease_lasts_until_what_the_program_has_launched_is_done() {
    let (_alone, gpu) = device();
    let raw = [RawStream::new(), RawStream::new()];
    let Some(streams) = raw.iter().map(|raw| raw.of(&gpu)).collect::<Option<Vec<_>>>() else {
        return eprintln!("no PTX, so no streams");
    };
    let flags = [gpu.host_memory(4096).unwrap(), gpu.host_memory(4096).unwrap()];
    let (running, lease) = Lease::of_program(&streams).unwrap();
    for (raw, flag) in raw.iter().zip(&flags) {
        raw.spin(&gpu, flag);
    }
    assert!(running.poll().is_none());
    // What nobody else sees counts as running.
    let error = load(&gpu, "beside", Image::Ptx(format!("{HEAD}{KERNELS}"))).unwrap_err();
    assert!(matches!(error, LoadError::WhileRunning { running: 2, .. }), "{error}");
    lease.close();
    for flag in &flags {
        std::thread::sleep(Duration::from_millis(20));
        assert!(running.poll().is_none(), "a kernel runs");
        word(flag).store(1, SeqCst);
    }
    assert_eq!(finish(&running), Ok(WaitOutcome::Finished));
    // Nothing is held any more.
    load(&gpu, "behind", Image::Ptx(format!("{HEAD}{KERNELS}"))).unwrap();
}

#[test]
#[ignore = "needs a CUDA GPU"]
fn functions_are_checked_before_a_lease() {
    let (_alone, gpu) = device();
    let function = gpu.inner.cuda_function("tests", "spin", 32).unwrap().unwrap();
    let check = |blocks: u32, threads: u32| {
        // SAFETY: a function of this context.
        unsafe { gpu.check_function(function, (blocks.into(), threads.into(), 0)) }
    };
    check(1, 32).unwrap();
    let error = check(1 << 20, 32).unwrap_err();
    assert!(matches!(error, StreamError::Launch(LaunchError::NotResident { .. })), "{error}");
    let error = check(1, 1025).unwrap_err();
    assert!(matches!(error, StreamError::Launch(LaunchError::Shape(_))), "{error}");
    // Where kernels take all of the GPU there is no room beside them.
    let flag = gpu.host_memory(4096).unwrap();
    let mut blocks = 1;
    while check(2 * blocks, 1024).is_ok() {
        blocks *= 2;
    }
    let full = spin(&gpu, &flag, blocks, 1024).unwrap();
    let error = check(2 * blocks, 1024).unwrap_err();
    assert!(error.to_string().contains("beside 1 running kernel(s)"), "{error}");
    word(&flag).store(1, SeqCst);
    assert_eq!(finish(&full), Ok(WaitOutcome::Finished));
}
