//! Builds the kernels' PTX, and the C client that polls.

use std::path::PathBuf;
use std::process::Command;

/// The C client's source.
const CLIENT: &str = "client/poll_client.c";

fn main() {
    gpunet_builder::Builder::new("kernels").build();
    // The suite `footprint` measures how long they load.
    gpunet_builder::Builder::new("../../apps/kernels").build();
    // Shared objects with kernels for the emulated GPU find the device functions in the program.
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=gpunet_*");
    println!("cargo::rerun-if-changed={CLIENT}");
    println!("cargo::rerun-if-env-changed=CC");
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    let client = PathBuf::from(folder).join("poll_client");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(&compiler).arg("-O2").arg("-o").arg(&client).arg(CLIENT).output();
    match built {
        Ok(output) if output.status.success() => {
            println!("cargo::rustc-env=GPUNET_POLL_CLIENT={}", client.display());
        }
        // The suites that use it say so, and go on without.
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            println!("cargo::warning=no C client: {} failed: {why}", compiler.display());
        }
        Err(why) => println!("cargo::warning=no C client: {}: {why}", compiler.display()),
    }
}
