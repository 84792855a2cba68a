//! Messages between the proxies of a p2p stream's ends: one that is taken is sent in the same words.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| gpunet_host::fuzzing::p2p_message(bytes));
