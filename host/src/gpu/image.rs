//! Images of kernels that were compiled elsewhere, from other languages, and are launched by name.
//!
//! | image | for | kernels are |
//! | --- | --- | --- |
//! | PTX, cubin, fatbin | CUDA | its entries |
//! | shared object | the emulated GPU | its exported records `gpunet_kernel_NAME` ([`KernelRecord`]) |
//! | functions | the emulated GPU | what the program says |
//!
//! [`Gpu::load_image`] checks that an image is for this GPU and this version of the C ABI, and knows
//! afterwards what parameters each kernel takes. The backends do the loading.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use gpunet_device::c_abi::GPUNET_C_ABI;
use gpunet_device::kernel::Memory;

use super::elf::{EM_CUDA, Elf};
use super::{Dim3, Entry, Gpu, GpuKind, LaunchError, LaunchSpec, LoadError};

/// The variable in which an image carries the version of the C ABI that it was built for.
pub(super) const C_ABI_MARK: &str = "gpunet_c_abi";

/// The first bytes of a fat binary.
const FATBIN_MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();

/// Bytes of a net as a kernel gets it.
pub(super) const NET_BYTES: usize = size_of::<gpunet_device::Net>();

/// What one emulated thread runs of a kernel in another language: given the addresses of its parameters,
/// the net first.
pub type RawEntry = unsafe extern "C-unwind" fn(parameters: *const *mut c_void);

/// Kernels, as a compiler of another language has made them.
#[derive(Clone)]
#[non_exhaustive]
pub enum Image {
    /// PTX text.
    Ptx(String),
    /// Machine code of one architecture, linked or relocatable.
    Cubin(Vec<u8>),
    /// Machine code of several architectures, perhaps with PTX.
    Fatbin(Vec<u8>),
    /// A shared object for the emulated GPU.
    SharedObject(PathBuf),
    /// Functions of this process, for the emulated GPU.
    Functions(Vec<RawKernel>),
}

impl Image {
    /// PTX, a cubin or a fatbin, by its first bytes.
    ///
    /// # Errors
    /// What is none of these; of a shared object the path is wanted.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, LoadError> {
        let bytes = bytes.into();
        if bytes.starts_with(&FATBIN_MAGIC) {
            return Ok(Self::Fatbin(bytes));
        }
        if let Some(elf) = Elf::parse(&bytes) {
            return match elf.machine == EM_CUDA {
                true => Ok(Self::Cubin(bytes)),
                false => Err(LoadError::Image(
                    "no image of kernels: code of a CPU: give the path of a shared object (Image::SharedObject)"
                        .to_owned(),
                )),
            };
        }
        let begins = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned();
        match String::from_utf8(bytes) {
            // Tools end it with a zero.
            Ok(text) if text.contains(".version") => {
                Ok(Self::Ptx(text.trim_end_matches('\0').to_owned()))
            }
            _ => Err(LoadError::Image(format!(
                "no image of kernels: bytes that begin with {begins:?}: give PTX text, a cubin or a fatbin \
                 for CUDA, and the path of a shared object for the emulated GPU"
            ))),
        }
    }

    /// That it is not one for this kind of GPU, which takes what is wanted.
    pub(super) fn wrong_kind(&self, image: &str, kind: GpuKind, wanted: &str) -> LoadError {
        let given = self.kind();
        let text = format!("image '{image}' is {given}, and this GPU ({kind}) takes {wanted}");
        LoadError::Image(text)
    }

    /// What it is, for errors.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Ptx(_) => "PTX",
            Self::Cubin(_) => "a cubin",
            Self::Fatbin(_) => "a fatbin",
            Self::SharedObject(_) => "a shared object",
            Self::Functions(_) => "functions of this process",
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.kind()).finish()
    }
}

/// A function that is a kernel of the emulated GPU.
#[derive(Clone)]
pub struct RawKernel {
    pub(super) name: String,
    pub(super) entry: RawEntry,
    pub(super) parameters: Vec<usize>,
    /// It may be unwound.
    unwinds: bool,
    /// What the function lives in.
    #[allow(dead_code, reason = "held")]
    kept: Option<Memory>,
}

impl RawKernel {
    /// A kernel with parameters of so many bytes each, the net (16 bytes) as the first of them.
    ///
    /// # Safety
    /// `entry` may be called by any thread as often as wanted, with the addresses of so many values of
    /// these sizes, of which it writes none; it lets unwinding pass
    /// ([unless](Self::without_unwinding)). It stays where it is for as long as
    /// the process lives, or as `kept` does.
    pub unsafe fn new(
        name: impl Into<String>,
        entry: RawEntry,
        parameters: impl Into<Vec<usize>>,
        kept: Option<Memory>,
    ) -> Self {
        Self { name: name.into(), entry, parameters: parameters.into(), unwinds: true, kept }
    }

    /// The same kernel, whose code has no tables for unwinding, as compilers at run time (numba) make it:
    /// threads of a launch that fails or is killed are left where they are. Memory that the code has taken
    /// for itself by then is lost.
    #[must_use]
    pub fn without_unwinding(mut self) -> Self {
        self.unwinds = false;
        self
    }
}

impl fmt::Debug for RawKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawKernel")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// A kernel of a shared object, as it exports it under the name `gpunet_kernel_NAME`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelRecord {
    /// Bytes of this record, which later versions may extend.
    pub size: u64,
    /// Its name, a C string.
    pub name: *const c_char,
    /// What one thread runs.
    pub entry: Option<RawEntry>,
    /// Parameters, the net among them.
    pub count: u64,
    /// Bytes of each.
    pub sizes: *const u64,
}

/// A kernel of a loaded image.
#[derive(Clone, Debug)]
pub(super) struct ImageKernel {
    /// Bytes of each parameter, where that is known.
    pub(super) parameters: Option<Vec<usize>>,
    /// What one emulated thread runs.
    pub(super) entry: Option<RawKernel>,
}

/// Kernels of an image that can be launched; clones are the same. It stays loaded for as long as its GPU is
/// open, and a shared object for as long as the process lives.
#[derive(Clone)]
pub struct LoadedImage {
    gpu: Gpu,
    name: Arc<str>,
    kernels: Arc<BTreeMap<String, ImageKernel>>,
}

impl Gpu {
    /// Makes the kernels of an image launchable by name. A second call with the same image and name does
    /// nothing.
    ///
    /// # Safety
    /// A shared object runs its initialisers in this process, and its records are what
    /// [`KernelRecord`] says.
    ///
    /// # Errors
    /// An image for another kind of GPU, architecture or version of the C ABI, one that calls functions
    /// which nobody defines, one without kernels; and on CUDA while a kernel runs, since the driver would
    /// wait for it.
    pub unsafe fn load_image(&self, name: &str, image: Image) -> Result<LoadedImage, LoadError> {
        let kernels = self.inner.get()?.load_image(name, &image)?;
        if kernels.is_empty() {
            return Err(LoadError::Image(format!(
                "image '{name}' ({}) has no kernels: entries of CUDA code, or records gpunet_kernel_NAME that \
                 a shared object exports",
                image.kind()
            )));
        }
        Ok(LoadedImage { gpu: self.clone(), name: name.into(), kernels: Arc::new(kernels) })
    }
}

impl LoadedImage {
    /// The name that it was loaded under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The GPU it is loaded on.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Its kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Bytes of each parameter of a kernel, the net as the first of them; nothing where that is not known,
    /// as of machine code before CUDA 12.4.
    ///
    /// # Errors
    /// A kernel that the image does not have.
    pub fn parameters(&self, kernel: &str) -> Result<Option<&[usize]>, LaunchError> {
        Ok(self.kernel(kernel)?.parameters.as_deref())
    }

    /// The driver's handle (`CUfunction`) of a kernel for blocks of so many threads, for programs that
    /// launch it themselves under a lease; none on the emulated GPU.
    ///
    /// # Errors
    /// A kernel that the image does not have.
    pub fn cuda_function(&self, kernel: &str, threads: u32) -> Result<Option<usize>, LaunchError> {
        self.kernel(kernel)?;
        self.gpu.inner.get()?.cuda_function(&self.name, kernel, threads)
    }

    fn kernel(&self, kernel: &str) -> Result<&ImageKernel, LaunchError> {
        self.kernels.get(kernel).ok_or_else(|| LaunchError::UnknownKernel {
            module: self.name.to_string(),
            kernel: kernel.to_owned(),
            known: self.kernels().collect::<Vec<_>>().join(", "),
        })
    }

    /// A launch of a kernel, with the bytes of all its parameters.
    pub(crate) fn spec(
        &self,
        kernel: &str,
        (grid, block, shared_bytes): (Dim3, Dim3, u32),
        mut params: Vec<Box<[u8]>>,
    ) -> Result<LaunchSpec<'static>, LaunchError> {
        let found = self.kernel(kernel)?;
        if let Some(expected) = &found.parameters {
            split_net(expected, &mut params);
            check_sizes(kernel, expected, &params)?;
        }
        let entry = match &found.entry {
            Some(function) => Parameters::new(&params).bind(function.clone()),
            None => Arc::new(|| unreachable!("a kernel for CUDA has no function")),
        };
        Ok(LaunchSpec {
            module: self.name.to_string().into(),
            kernel: kernel.to_owned().into(),
            grid,
            block,
            shared_bytes,
            params,
            entry,
        })
    }

    /// A launch that is only checked: with parameters of the right sizes.
    pub(crate) fn spec_to_check(
        &self,
        kernel: &str,
        shape: (Dim3, Dim3, u32),
    ) -> Result<LaunchSpec<'static>, LaunchError> {
        let sizes = self.kernel(kernel)?.parameters.clone().unwrap_or_default();
        // As the kernel takes them: a net in two words is not split again.
        self.spec(kernel, shape, sizes.iter().map(|bytes| vec![0; *bytes].into()).collect())
    }
}

impl fmt::Debug for LoadedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedImage")
            .field("name", &self.name)
            .field("kernels", &self.kernels.keys())
            .finish_non_exhaustive()
    }
}

/// Gives the net as two words of 8 bytes to a kernel that takes them so, as those of numba do: its compiler
/// has no structs among parameters.
fn split_net(expected: &[usize], params: &mut Vec<Box<[u8]>>) {
    if expected.starts_with(&[NET_BYTES / 2; 2])
        && params.first().is_some_and(|net| net.len() == NET_BYTES)
    {
        let net = params.remove(0);
        let (records, shape) = net.split_at(NET_BYTES / 2);
        params.splice(..0, [records.into(), shape.into()]);
    }
}

/// A kernel would read as many bytes as it was compiled for, whatever was given.
pub(super) fn check_sizes(
    kernel: &str,
    expected: &[usize],
    given: &[Box<[u8]>],
) -> Result<(), LaunchError> {
    let given: Vec<usize> = given.iter().map(|bytes| bytes.len()).collect();
    if expected == given {
        return Ok(());
    }
    Err(LaunchError::Parameters {
        kernel: kernel.to_owned(),
        expected: format!("{expected:?}"),
        given: format!("{given:?}"),
    })
}

/// That an image has no code for this GPU.
pub(super) fn wrong_architecture(image: &str, architecture: &str) -> LoadError {
    LoadError::Image(format!(
        "image '{image}' has no code for this GPU ({architecture}): compile it for that architecture, or put \
         PTX into it"
    ))
}

/// Compares the version of the C ABI that an image was built for with this program's.
pub(super) fn check_c_abi(image: &str, found: Option<[u32; 2]>) -> Result<(), LoadError> {
    let [major, minor] = GPUNET_C_ABI;
    match found {
        Some([of, least]) if of == major && least <= minor => Ok(()),
        _ => {
            let found = found.map_or_else(
                || format!("it does not say which: it lacks {C_ABI_MARK}"),
                |[major, minor]| format!("{major}.{minor}"),
            );
            Err(LoadError::Version(format!(
                "image '{image}' was built for another version of gpunet's C ABI ({found}, this program has \
                 {major}.{minor}): build it with the headers of this version, or use a newer libgpunet"
            )))
        }
    }
}

/// As values of C++ may be aligned.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk([u8; 64]);

/// The parameters of a launch on the emulated GPU: each aligned, at addresses that all threads are given.
struct Parameters {
    _memory: Box<[Chunk]>,
    addresses: Box<[*mut c_void]>,
}

// SAFETY: kernels read what the addresses lead to, and nobody writes it (`RawKernel::new`).
unsafe impl Send for Parameters {}
// SAFETY: as above.
unsafe impl Sync for Parameters {}

impl Parameters {
    fn new(params: &[Box<[u8]>]) -> Self {
        let chunks = |bytes: usize| bytes.div_ceil(size_of::<Chunk>()).max(1);
        let all = params.iter().map(|param| chunks(param.len())).sum();
        let mut memory = vec![Chunk([0; 64]); all].into_boxed_slice();
        let start = memory.as_mut_ptr().cast::<u8>();
        let mut at = 0;
        let addresses = params.iter().map(|param| {
            let address = start.wrapping_add(at);
            at += chunks(param.len()) * size_of::<Chunk>();
            // SAFETY: as many chunks as hold the bytes begin there, and nobody else has them.
            unsafe { address.copy_from_nonoverlapping(param.as_ptr(), param.len()) };
            address.cast::<c_void>()
        });
        let addresses = addresses.collect();
        Self { _memory: memory, addresses }
    }

    /// What one thread runs.
    fn bind(self, kernel: RawKernel) -> Entry {
        Arc::new(move || {
            // As a whole, with what they keep.
            let (parameters, kernel) = (&self, &kernel);
            if !kernel.unwinds {
                gpunet_device::simt::emulated::forbid_unwinding();
            }
            // SAFETY: as many parameters as the kernel takes, of its sizes (`LoadedImage::spec`).
            unsafe { (kernel.entry)(parameters.addresses.as_ptr()) };
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_first_bytes() {
        let kind = |bytes: &[u8]| Image::bytes(bytes).map(|image| image.kind());
        assert_eq!(kind(b"//\n.version 8.0\n.target sm_90\n\0").unwrap(), "PTX");
        assert_eq!(kind(&[0x50, 0xED, 0x55, 0xBA, 1, 0]).unwrap(), "a fatbin");
        let mut elf = vec![0_u8; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = 190;
        assert_eq!(kind(&elf).unwrap(), "a cubin");
        elf[18] = 62;
        let error = kind(&elf).unwrap_err().to_string();
        assert!(error.contains("code of a CPU") && error.contains("the path"), "{error}");
        for bytes in [b"".as_slice(), b"\x7fELF", b"int main() {}", &[0xFF; 40]] {
            let error = kind(bytes).unwrap_err().to_string();
            assert!(error.contains("give PTX text, a cubin or a fatbin"), "{error}");
        }
        let Image::Ptx(text) = Image::bytes(b".version 8.0\n\0".as_slice()).unwrap() else {
            panic!("no PTX")
        };
        assert_eq!(text, ".version 8.0\n");
    }

    #[test]
    fn versions_of_the_c_abi_are_compared() {
        let [major, minor] = GPUNET_C_ABI;
        check_c_abi("i", Some([major, minor])).unwrap();
        for found in [[major, minor + 1], [major + 1, 0], [0, 0]] {
            let error = check_c_abi("i", Some(found)).unwrap_err().to_string();
            let [of, least] = found;
            assert!(error.contains(&format!("{of}.{least}")), "{error}");
            assert!(error.contains(&format!("{major}.{minor}")), "{error}");
        }
        let error = check_c_abi("i", None).unwrap_err().to_string();
        assert!(error.contains("does not say which"), "{error}");
    }

    #[test]
    fn a_net_is_given_as_two_words_where_a_kernel_takes_them() {
        let given = || -> Vec<Box<[u8]>> { vec![(0..16).collect(), [7; 8].into()] };
        let split = |expected: &[usize]| {
            let mut params = given();
            split_net(expected, &mut params);
            params
        };
        let words: Vec<Box<[u8]>> = vec![(0..8).collect(), (8..16).collect(), [7; 8].into()];
        assert_eq!(split(&[8, 8, 8]), words);
        for whole in [[16, 8].as_slice(), &[8, 4], &[8], &[]] {
            assert_eq!(split(whole), given());
        }
    }

    #[test]
    fn parameters_are_aligned_and_whole() {
        let params: Vec<Box<[u8]>> =
            vec![[1; 16].into(), [2; 1].into(), [].into(), [3; 200].into()];
        let parameters = Parameters::new(&params);
        for (address, param) in parameters.addresses.iter().zip(&params) {
            assert!(address.addr().is_multiple_of(64));
            // SAFETY: as many bytes lie there.
            let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), param.len()) };
            assert_eq!(bytes, &**param);
        }
    }
}
