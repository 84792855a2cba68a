//! Images of the emulated GPU: shared objects, and functions of the program.
//!
//! A shared object calls device functions by their C names. The loader finds them in the program or
//! library that holds this crate (it exports them), also where that was loaded for itself alone, as Python
//! loads extension modules. Objects stay loaded: threads, handlers and thread-locals of theirs may live on.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use super::super::elf::{EM_CUDA, Elf};
use super::super::image::{
    C_ABI_MARK, Image, ImageKernel, KernelRecord, NET_BYTES, RawKernel, check_c_abi,
    wrong_architecture,
};
use super::super::{GpuKind, LoadError};

/// What the names of records begin with.
const RECORD: &str = "gpunet_kernel_";
/// Parameters that no kernel has more of: CUDA has room for 4 KiB of them.
const MOST_PARAMETERS: u64 = 4096;
/// Bytes that no parameter has more of: CUDA's limit since 12.1.
const MOST_BYTES: u64 = 32 << 10;

/// Loads an image.
pub(super) fn load(name: &str, image: &Image) -> Result<BTreeMap<String, ImageKernel>, LoadError> {
    let kernels = match image {
        Image::SharedObject(path) => load_object(name, path)?,
        Image::Functions(kernels) => kernels.clone(),
        Image::Ptx(_) | Image::Cubin(_) | Image::Fatbin(_) => {
            return Err(image.wrong_kind(name, GpuKind::Emulated, "a shared object or functions"));
        }
    };
    let mut by_name = BTreeMap::new();
    for kernel in kernels {
        check(name, &kernel)?;
        let parameters = Some(kernel.parameters.clone());
        let known = ImageKernel { parameters, entry: Some(kernel.clone()) };
        if by_name.insert(kernel.name.clone(), known).is_some() {
            return Err(refused(name, &format!("it has two kernels named '{}'", kernel.name)));
        }
    }
    Ok(by_name)
}

/// A kernel has a name, and takes a net first.
fn check(image: &str, kernel: &RawKernel) -> Result<(), LoadError> {
    if kernel.name.is_empty() {
        return Err(refused(image, "one of its kernels has no name"));
    }
    if kernel.parameters.first() != Some(&NET_BYTES) {
        let (name, parameters) = (&kernel.name, &kernel.parameters);
        let why = format!(
            "kernel '{name}' takes parameters of {parameters:?} bytes: the first must be a net, of \
             {NET_BYTES} bytes"
        );
        return Err(refused(image, &why));
    }
    Ok(())
}

fn refused(image: &str, log: &str) -> LoadError {
    LoadError::Refused(format!("module '{image}' does not load: refused: {log}"))
}

/// How shared objects for this machine name it (`e_machine`), where that is known here.
const OWN_MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else {
    None
};

/// Opens a shared object and reads its records.
fn load_object(name: &str, path: &Path) -> Result<Vec<RawKernel>, LoadError> {
    let bytes = std::fs::read(path)
        .map_err(|error| refused(name, &format!("{}: {error}", path.display())))?;
    let Some(elf) = Elf::parse(&bytes) else {
        return Err(LoadError::Image(format!(
            "no image of kernels: {}, which is no shared object: give the path of one, and other images by \
             their bytes (Image::bytes)",
            path.display()
        )));
    };
    if elf.machine == EM_CUDA {
        return load(name, &Image::Cubin(Vec::new())).map(|_| Vec::new());
    }
    // The loader would say that there is no such file.
    if OWN_MACHINE.is_some_and(|machine| machine != elf.machine) {
        let architecture = format!("emulated, {}", std::env::consts::ARCH);
        return Err(wrong_architecture(name, &architecture));
    }
    if let Some(needed) = elf.missing() {
        let (path, found) = (path.display(), bytes.len());
        let why = format!("{path} is cut off: {found} of {needed} bytes: build or copy it again");
        return Err(refused(name, &why));
    }
    show_own_symbols();
    // A name without a slash would be searched for.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // SAFETY: its initialisers are trusted, by the promise of `Gpu::load_image`'s caller.
    let object = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let object = object.map_err(|error| {
        // What the loader says stands behind the library's own words.
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        match why.split_once("undefined symbol: ") {
            Some((_, symbol)) => LoadError::MissingSymbols {
                image: name.to_owned(),
                symbols: symbol.trim_end_matches(['"', '}', ' ']).to_owned(),
            },
            None => refused(name, &why.replace('\n', " ")),
        }
    })?;
    check_c_abi(name, mark(&object))?;
    let records = elf.exported().into_iter().filter(|symbol| symbol.starts_with(RECORD));
    let kernels = records.map(|symbol| read(name, &object, symbol)).collect();
    // For as long as the process lives.
    std::mem::forget(object);
    kernels
}

/// The version that an object was built for.
fn mark(object: &Library) -> Option<[u32; 2]> {
    // SAFETY: the variable has that type, by the promise of `Gpu::load_image`'s caller.
    unsafe { object.get::<*const [u32; 2]>(C_ABI_MARK.as_bytes()) }
        .ok()
        .map(|mark| unsafe { **mark })
}

/// A kernel, from its record.
fn read(image: &str, object: &Library, symbol: &str) -> Result<RawKernel, LoadError> {
    let damaged = |why: &str| refused(image, &format!("its record {symbol} {why}"));
    // SAFETY: the symbol has that type, by the promise of `Gpu::load_image`'s caller.
    let record = unsafe { object.get::<*const KernelRecord>(symbol.as_bytes()) }
        .map_err(|_| damaged("is hidden"))?;
    // SAFETY: it begins with its size.
    if unsafe { (**record).size } < size_of::<KernelRecord>() as u64 {
        return Err(damaged("is too small: build it with the headers of one version"));
    }
    // SAFETY: it is as large as this.
    let record = unsafe { **record };
    let Some(entry) = record.entry else { return Err(damaged("has no entry")) };
    if record.name.is_null() || record.sizes.is_null() || record.count > MOST_PARAMETERS {
        return Err(damaged("has no name, or no sizes of parameters"));
    }
    // SAFETY: a C string, by the same promise.
    let name = unsafe { CStr::from_ptr(record.name) }.to_string_lossy().into_owned();
    // SAFETY: so many sizes, by the same promise.
    let sizes = unsafe { std::slice::from_raw_parts(record.sizes, record.count as usize) };
    if sizes.iter().any(|bytes| *bytes > MOST_BYTES) {
        return Err(damaged("has a parameter of more than 32 KiB"));
    }
    let parameters: Vec<usize> = sizes.iter().map(|bytes| *bytes as usize).collect();
    // SAFETY: what a record names is such a function, by the same promise, and objects stay loaded.
    Ok(unsafe { RawKernel::new(name, entry, parameters, None) })
}

/// Has the loader find the device functions that the program or library with this crate exports, for
/// objects that are opened from now on.
fn show_own_symbols() {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here: fn() = show_own_symbols;
    // SAFETY: asks where a function of ours lies, and writes the answer.
    let known = unsafe { libc::dladdr(here as *const libc::c_void, found.as_mut_ptr()) };
    // SAFETY: zeros are a Dl_info.
    let found = unsafe { found.assume_init() };
    if known == 0 || found.dli_fname.is_null() {
        return;
    }
    // SAFETY: a C string of the loader's.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes());
    let flags = RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_GLOBAL;
    // SAFETY: it is loaded already, and nothing of it runs.
    if let Ok(own) = unsafe { Library::open(Some(path), flags) } {
        // Visible for as long as it is loaded.
        std::mem::forget(own);
    }
    // A program itself is found without: what cannot be opened here is one.
}
