//! gpunet.h is what cbindgen writes from src/.
//!
//! `GPUNET_RECORD=1 cargo test -p gpunet-c --test header` writes it anew.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Another version writes another text.
const VERSION: &str = "cbindgen 0.29.4";

/// The cbindgen that `GPUNET_CBINDGEN` names, or on the path, if it is of this version.
fn cbindgen() -> Result<PathBuf, String> {
    let install = "`cargo xtask release --step pages` builds one; or install Debian's cbindgen-web";
    let named = std::env::var_os("GPUNET_CBINDGEN").map(PathBuf::from);
    let found = named.or_else(|| common::find("cbindgen"));
    let found = found.ok_or_else(|| format!("no cbindgen: {install}"))?;
    let mut ask = Command::new(&found);
    let (_, version) = common::end(ask.arg("--version"), common::SOON);
    match version.trim() == VERSION {
        true => Ok(found),
        false => Err(format!("{} in place of {VERSION}: {install}", version.trim())),
    }
}

#[test]
fn the_header_is_what_the_source_says() {
    let cbindgen = match cbindgen() {
        Ok(found) => found,
        Err(why) => return common::skip("the_header_is_what_the_source_says", &why),
    };
    let checked_in = common::here().join("include/gpunet/gpunet.h");
    let written = common::folder("header").join("gpunet.h");
    let mut command = Command::new(cbindgen);
    command.args(["--quiet", "--crate", "gpunet-c", "--config"]);
    command.arg(common::here().join("cbindgen.toml")).arg("--output").arg(&written);
    common::run(command.arg(common::here()), Duration::from_secs(12));
    let (new, old) =
        (fs::read_to_string(written).unwrap(), fs::read_to_string(&checked_in).unwrap());
    if std::env::var_os("GPUNET_RECORD").is_some() {
        fs::write(&checked_in, new).unwrap();
        return;
    }
    let differs = new.lines().zip(old.lines()).position(|(new, old)| new != old);
    let at = differs.unwrap_or_else(|| new.lines().count().min(old.lines().count()));
    let (new_line, old_line) = (new.lines().nth(at), old.lines().nth(at));
    assert!(
        new == old,
        "gpunet.h differs from src/ in line {}: {old_line:?} should be {new_line:?}: run \
         `GPUNET_RECORD=1 cargo test -p gpunet-c --test header`",
        at + 1
    );
}
