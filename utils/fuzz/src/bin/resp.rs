//! Requests to `kv`: what comes in parts is what comes at once, and all arguments lie inside the request.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: Vec<u8>| gpunet_kv::fuzzing::request(bytes));
