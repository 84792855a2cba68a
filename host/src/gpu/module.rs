//! A kernel module as a program carries it: a name and the PTX compiled in, or why there is none.
//!
//! Build scripts make the value, [`Gpu::load`](super::Gpu::load) takes it. Plain data.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::LoadError;

/// Bytes of PTX that no module has: what is said to have more is damaged.
const MOST: usize = 256 << 20;

/// Kernels compiled together; they are launched by the module's name and their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name that launches use. One name stands for one content in a process.
    pub name: &'static str,
    /// The PTX text, packed in zlib's format, or one line that says why the build had none to compile
    /// in.
    pub ptx: Result<&'static [u8], &'static str>,
}

impl Module {
    /// The PTX text.
    ///
    /// # Errors
    /// There is none, or the program's file is damaged.
    pub fn text(&self) -> Result<String, LoadError> {
        let no_ptx = |reason: &str| {
            LoadError::Image(format!("module '{}' has no PTX compiled in: {reason}", self.name))
        };
        let packed = self.ptx.map_err(no_ptx)?;
        decompress_to_vec_zlib_with_limit(packed, MOST)
            .ok()
            .and_then(|text| String::from_utf8(text).ok())
            .ok_or_else(|| no_ptx("it is damaged; build the program again"))
    }
}

/// What a kernel needs of a GPU, as its driver has compiled and linked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelNeeds {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack of a thread.
    pub stack: u32,
    /// Threads of the largest block that its registers allow.
    pub max_threads: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(b".version 6.3\n", 10);
        let module = Module { name: "m", ptx: Ok(packed.leak()) };
        assert_eq!(module.text().unwrap(), ".version 6.3\n");
    }

    #[test]
    fn what_cannot_be_unpacked_is_an_error_of_one_line() {
        let absent = Module { name: "m", ptx: Err("no compiler was found") };
        assert!(absent.text().unwrap_err().to_string().ends_with("no compiler was found"));
        let good = miniz_oxide::deflate::compress_to_vec_zlib(b".version 6.3\n", 10);
        let mut damaged = vec![Vec::new(), b"no zlib".to_vec(), good[..good.len() - 1].to_vec()];
        damaged.push(miniz_oxide::deflate::compress_to_vec_zlib(&[0xff, 0xfe], 10));
        for bytes in damaged {
            let error = Module { name: "m", ptx: Ok(bytes.leak()) }.text().unwrap_err();
            assert!(error.to_string().ends_with("build the program again"), "{error}");
        }
    }
}
