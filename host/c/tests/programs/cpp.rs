//! Programs in C++, with the kernels of examples/ and tests/kernels.cu.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use crate::common::{self, SOON};

/// A folder with the program and all kernels, made once.
static WORLD: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = common::folder("cases");
    common::place_library(&folder);
    let sources =
        ["echo", "client", "poll_server", "slices"].map(|name| format!("examples/{name}.cu"));
    for source in sources.iter().map(String::as_str).chain(["tests/kernels.cu"]) {
        let source = common::here().join(source);
        let object = folder.join(source.file_stem().unwrap()).with_extension("so");
        common::compile_kernels(&source, &object, &["-fno-exceptions"]);
    }
    common::wrong_kernels(&folder, &folder.join("echo.so"));
    common::compile(&common::here().join("tests/programs/cases.cpp"), &folder.join("cases"), &[]);
    folder
});

/// Runs one case; what it printed before `done`.
fn case(name: &str) -> String {
    let folder = &*WORLD;
    let mut command = Command::new(folder.join("cases"));
    let printed = common::run(command.arg(folder).arg(name), Duration::from_secs(15));
    let end = printed.strip_suffix("done\n");
    end.unwrap_or_else(|| panic!("{name}: {printed}")).to_owned()
}

/// What the kernel `words` prints, where it goes to standard output.
const NUMBERS: &str = "[launch 0] numbers: -1234567890123, 0\n";

/// A case that prints nothing.
fn quiet(name: &str) {
    assert_eq!(case(name), "", "{name}");
}

#[test]
fn an_echo_server() {
    quiet("echo");
}

#[test]
fn a_client() {
    quiet("client");
}

#[test]
fn many_connections_a_block() {
    quiet("poll_server");
}

#[test]
fn slices_of_rings() {
    quiet("slices");
}

#[test]
fn warps_and_threads() {
    quiet("groups");
}

#[test]
fn words_of_cuda() {
    quiet("words");
}

#[test]
fn time_outs() {
    quiet("timeouts");
}

#[test]
fn peers_that_close_reset_or_refuse() {
    quiet("endings");
}

#[test]
fn operations_on_a_stream() {
    quiet("stream");
}

#[test]
fn a_graph() {
    assert_eq!(case("graph"), NUMBERS.repeat(4));
}

#[test]
fn a_lease() {
    assert_eq!(case("lease"), NUMBERS);
}

#[test]
fn what_a_launch_keeps() {
    quiet("kept");
}

#[test]
fn a_child_that_is_forked_while_a_kernel_runs() {
    quiet("forked");
}

#[test]
fn a_process_that_ends_while_a_kernel_runs() {
    quiet("leaves");
}

/// The line of a kernel of tests/kernels.cu that has these words, behind the kernel's name.
fn line_of(kernel: &str, words: &str) -> usize {
    let text = fs::read_to_string(common::here().join("tests/kernels.cu")).unwrap();
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !line.contains(kernel));
    let (at, _) = lines.find(|(_, line)| line.contains(words)).expect("the kernel has such a line");
    at + 1
}

/// Runs a kernel that is wrong: how it ended, which names that line of its source.
fn wrong(kernel: &str, begin: &str, words: &str) {
    let sentence = case(kernel);
    let place = format!("kernels.cu:{}", line_of(&format!("void {kernel}("), words));
    assert!(sentence.starts_with(begin), "{sentence}");
    assert!(sentence.contains(&place), "{place} is not in: {sentence}");
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
}

#[test]
fn a_barrier_that_not_all_reach_is_reported_with_its_line() {
    wrong("diverge", "GPUNET_EDIVERGED, kernel: kernel 'diverge', block 0", "__syncthreads();");
}

#[test]
fn calls_that_differ_are_reported_with_their_line() {
    wrong("differ", "GPUNET_EDIVERGED, kernel: kernel 'differ', block 0", "write_all");
}

#[test]
fn a_trap_is_reported_with_its_line() {
    wrong("trap", "GPUNET_ETRAP, kernel: kernel 'trap' faulted in block 0, thread 9", "__trap();");
}

#[test]
fn a_net_that_is_not_set_is_reported_with_its_line() {
    wrong("unset", "GPUNET_ETRAP, kernel: kernel 'unset' faulted in block 0", "clients.accept()");
    assert!(case("unset").contains("gaccept with a net that is not set"));
}

#[test]
fn each_mistake_throws_one_sentence() {
    let arch = std::env::consts::ARCH;
    let expected = format!(
        "version: GPUNET_EVERSION, caller: image 'version' was built for another version of gpunet's C ABI (9.0, \
         this program has 1.0): build it with the headers of this version, or use a newer libgpunet\n\
         missing: GPUNET_ESYMBOL, caller: image 'missing' calls functions that nobody defines (not_anywhere): link \
         them into it; those of gpunet are in libgpunet\n\
         machine: GPUNET_EIMAGE, caller: image 'machine' has no code for this GPU (emulated, {arch}): compile it for \
         that architecture, or put PTX into it\n\
         too few: GPUNET_EPARAMETERS, caller: kernel 'echo_server' takes parameters of [16, 8] bytes, given [16]\n\
         too many: GPUNET_EPARAMETERS, caller: kernel 'echo_server' takes parameters of [16, 8] bytes, given [16, 8, 4]\n\
         another type: GPUNET_EPARAMETERS, caller: kernel 'echo_server' takes parameters of [16, 8] bytes, given [16, 4]\n\
         no GPU: GPUNET_ENULL, caller: the gpunet_host_gpu is null\n"
    );
    assert_eq!(case("errors"), expected);
}

#[test]
fn kernels_and_program_in_one_file() {
    let folder = common::folder("single");
    common::place_library(&folder);
    let source = common::here().join("tests/programs/single.cu");
    // As C++, and what follows not.
    common::compile(&source, &folder.join("single"), &["-x", "c++"]);
    let printed = common::run(&mut Command::new(folder.join("single")), SOON);
    assert_eq!(printed, "done\n");
}
