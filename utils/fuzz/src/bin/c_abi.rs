//! Calls of the C library with any handles, sizes, positions and texts. The addresses of results and of what is
//! copied are good ones: C programs that pass bad ones end as all C programs do.

#![no_main]
#![allow(clippy::wildcard_imports, reason = "a library for C")]

use std::ffi::CString;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::LazyLock;

use gpunet::*;
use libfuzzer_sys::fuzz_target;

const BYTES: usize = 4096;

/// Handles that are good, as numbers: a GPU, a buffer, flags.
static GOOD: LazyLock<[usize; 3]> = LazyLock::new(|| {
    let (mut gpu, mut buffer, mut flags) = (null_mut(), null_mut(), null_mut());
    // SAFETY: all addresses are those of locals.
    let made = unsafe {
        [
            gpunet_gpu_open(c"emulated".as_ptr(), &raw mut gpu),
            gpunet_buffer_create(gpu, BYTES, &raw mut buffer),
            gpunet_flags_create(gpu, 16, 64, &raw mut flags),
        ]
    };
    assert!(made.iter().all(|status| *status == 0), "{made:?}");
    [gpu.expose_provenance(), buffer.expose_provenance(), flags.expose_provenance()]
});

/// Takes its values from the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Small ones, large ones, and those around powers of two.
    fn number(&mut self) -> Option<u64> {
        let (how, value) = (self.byte()?, self.byte()?);
        Some(match how {
            0..64 => value.into(),
            64..128 => (1_u64 << (value % 64)).wrapping_sub(u64::from(how % 3)),
            128..192 => u64::MAX - u64::from(value),
            _ => (BYTES as u64).wrapping_add(u64::from(value)).wrapping_sub(128),
        })
    }

    /// A handle that is good, one of another kind, or none at all.
    fn handle<H>(&mut self, made: &[usize]) -> Option<*mut H> {
        let which = self.byte()?;
        let known = GOOD.iter().chain(made);
        let number = match which {
            0..200 => known.clone().nth(usize::from(which) % known.count()).copied()?,
            200..220 => 0,
            _ => self.number()? as usize,
        };
        Some(with_exposed_provenance_mut(number))
    }

    fn text(&mut self) -> Option<CString> {
        let length = usize::from(self.byte()? % 40).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        CString::new(text).ok()
    }
}

/// One call. What it made is kept in `made`.
fn call(input: &mut Input<'_>, made: &mut Vec<usize>) -> Option<()> {
    let mut bytes = [0_u8; BYTES];
    let (at, count) = (bytes.as_mut_ptr(), |input: &mut Input<'_>| {
        input.number().map(|number| (number as usize).min(BYTES))
    });
    let (mut word, mut size, mut new) = (0_u64, 0_usize, null_mut());
    // SAFETY: all addresses are those of locals, as large as the numbers beside them say; handles may be any.
    unsafe {
        match input.byte()? % 18 {
            0 => {
                gpunet_buffer_read(
                    input.handle(made)?,
                    input.number()? as usize,
                    at.cast(),
                    count(input)?,
                );
            }
            1 => {
                gpunet_buffer_write(
                    input.handle(made)?,
                    input.number()? as usize,
                    at.cast(),
                    count(input)?,
                );
            }
            2 => {
                gpunet_buffer_size(input.handle(made)?, &raw mut size);
            }
            3 => {
                gpunet_flags_load(input.handle(made)?, input.number()?, &raw mut word);
            }
            4 => {
                gpunet_flags_store(input.handle(made)?, input.number()?, input.number()?);
            }
            5 => {
                if gpunet_batch_create(input.number()?, &raw mut new) == 0 {
                    made.push(new.expose_provenance());
                }
            }
            6 => {
                let (batch, socket) = (input.handle(made)?, input.number()?);
                let (buffer, offset) = (input.handle(made)?, input.number()? as usize);
                gpunet_batch_send(batch, socket, buffer, offset, input.number()? as usize);
            }
            7 => {
                let (batch, socket) = (input.handle(made)?, input.number()?);
                let (buffer, offset) = (input.handle(made)?, input.number()? as usize);
                gpunet_batch_receive(batch, socket, buffer, offset, input.number()? as usize);
            }
            8 => {
                let (batch, flags) = (input.handle(made)?, input.handle(made)?);
                let (index, how) = (input.number()? as usize, input.number()? as u32);
                gpunet_batch_wait_flag(batch, flags, index, how, input.number()?);
            }
            9 => {
                let (batch, flags) = (input.handle(made)?, input.handle(made)?);
                gpunet_batch_write_flag(batch, flags, input.number()? as usize, input.number()?);
            }
            10 => {
                let (batch, buffer) = (input.handle(made)?, input.handle(made)?);
                let (index, bits) = (input.number()? as usize, input.number()? as u32);
                let how = input.number()? as u32;
                gpunet_batch_wait_word(batch, buffer, index, bits, how, input.number()?);
            }
            11 => {
                let (batch, buffer) = (input.handle(made)?, input.handle(made)?);
                let (index, bits) = (input.number()? as usize, input.number()? as u32);
                gpunet_batch_write_word(batch, buffer, index, bits, input.number()?);
            }
            12 => {
                gpunet_batch_length(input.handle::<gpunet_host_batch>(made)?, &raw mut size);
            }
            13 => {
                let which = usize::from(input.byte()?);
                if let Some(batch) = made.get(which) {
                    // A second time is an error and no harm.
                    gpunet_batch_free(with_exposed_provenance_mut(*batch));
                }
            }
            14 => {
                let (text, mut address) = (input.text()?, gpunet_device::SocketAddr::NONE);
                // A host's name is asked for in the network.
                if text.as_bytes().iter().any(u8::is_ascii_alphabetic)
                    && !text.as_bytes().starts_with(b"unix:")
                {
                    return Some(());
                }
                if gpunet_address_parse(text.as_ptr(), &raw mut address) == 0 {
                    let status =
                        gpunet_address_text(&raw const address, at.cast(), BYTES, &raw mut size);
                    assert_eq!(status, 0, "an address that was read is written");
                }
            }
            15 => {
                let name = input.text()?;
                gpunet_gpu_number(input.handle(made)?, name.as_ptr(), &raw mut word);
            }
            16 => {
                let (name, capacity) = (input.text()?, count(input)?);
                gpunet_gpu_text(
                    input.handle(made)?,
                    name.as_ptr(),
                    at.cast(),
                    capacity,
                    &raw mut size,
                );
            }
            _ => {
                let (name, mut options) = (input.text()?, null_mut());
                gpunet_net_options_create(&raw mut options);
                gpunet_net_options_set(options, name.as_ptr(), input.number()?);
                let value = input.text()?;
                gpunet_net_options_set_text(options, name.as_ptr(), value.as_ptr());
                gpunet_net_options_free(options);
            }
        }
    }
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let (mut input, mut made) = (Input(bytes), Vec::new());
    while made.len() < 16 && call(&mut input, &mut made).is_some() {}
    for batch in made {
        // SAFETY: any handle may be freed, once or again.
        unsafe { gpunet_batch_free(with_exposed_provenance_mut(batch)) };
    }
});
