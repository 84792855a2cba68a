//! Compiling and running programs in C and C++: every wait has a deadline, and no child outlives its test.
#![allow(dead_code, unused_imports, reason = "each suite uses a part of it")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) use gpunet_support::testing::{Guarded, hang_limit, skip};

/// The limit of a program that ends in moments.
pub(crate) const SOON: Duration = Duration::from_secs(6);
/// For a compiler.
const COMPILING: Duration = Duration::from_secs(30);

/// Warnings are errors here.
pub(crate) const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// The folder of this package.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program on the path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpunet-c").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Where cargo has put libgpunet when it built this test.
pub(crate) fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

/// Puts the shared library into a folder, under its name for linkers and under that for programs.
pub(crate) fn place_library(folder: &Path) {
    let library = built().join("libgpunet.so");
    assert!(library.is_file(), "cargo has built no {}", library.display());
    for name in ["libgpunet.so", "libgpunet.so.1"] {
        std::os::unix::fs::symlink(&library, folder.join(name)).unwrap();
    }
}

/// Runs a command to its end, which must be good; what it printed.
pub(crate) fn run(command: &mut Command, usual: Duration) -> String {
    let (status, printed) = end(command, usual);
    assert!(status == Some(0), "{command:?} ended with {status:?}:\n{printed}");
    printed
}

/// Runs a command to its end; its exit status, and what it printed on both outputs.
pub(crate) fn end(command: &mut Command, usual: Duration) -> (Option<i32>, String) {
    let finished = gpunet_support::testing::run(command, usual);
    (finished.status.code(), finished.stdout + &finished.stderr)
}

/// Compiles a program against libgpunet; with C's compiler or C++'s, as its name says.
pub(crate) fn compile(source: &Path, to: &Path, options: &[&str]) {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let mut command = Command::new(if is_c { "cc" } else { "g++" });
    command.arg(if is_c { "-std=c11" } else { "-std=c++17" }).args(["-O1", "-g"]).args(WARNINGS);
    command.arg("-I").arg(here().join("include")).args(options).arg(source).arg("-o").arg(to);
    let folder = to.parent().unwrap();
    command.arg(format!("-L{}", folder.display())).arg("-lgpunet");
    command.arg(format!("-Wl,-rpath,{}", folder.display())).arg("-pthread");
    run(&mut command, COMPILING);
}

/// Compiles kernels to a shared object for the emulated GPU.
pub(crate) fn compile_kernels(source: &Path, to: &Path, options: &[&str]) {
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O1", "-g", "-fPIC", "-shared"]).args(WARNINGS).args(options);
    command.arg("-I").arg(here().join("include")).args(["-x", "c++"]).arg(source);
    run(command.arg("-o").arg(to), COMPILING);
}

/// Kernels of another version of the ABI, kernels that call what nobody defines, and good ones for another machine.
pub(crate) fn wrong_kernels(folder: &Path, good: &Path) -> [PathBuf; 3] {
    let source = folder.join("wrong.cpp");
    let text = "#include <stdint.h>\n\
        extern \"C\" uint32_t gpunet_c_abi[2];\n\
        extern \"C\" int not_anywhere();\n\
        uint32_t gpunet_c_abi[2] = {WANTED, 0};\n\
        extern \"C\" int call();\n\
        int call() { return CALL; }\n";
    fs::write(&source, text).unwrap();
    let made = ["version.so", "missing.so", "machine.so"].map(|name| folder.join(name));
    compile_kernels(&source, &made[0], &["-DWANTED=9", "-DCALL=0"]);
    compile_kernels(&source, &made[1], &["-DWANTED=1", "-DCALL=not_anywhere()"]);
    let mut other = fs::read(good).unwrap();
    // `e_machine`: IBM's S/390.
    other[18] = 22;
    fs::write(&made[2], other).unwrap();
    made
}

/// A program that runs, whose lines are read as they come.
pub(crate) struct Program {
    child: Guarded,
    lines: mpsc::Receiver<String>,
    what: String,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let what = format!("{command:?}");
        let mut child = Guarded::spawn(command);
        let out = BufReader::new(child.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, what }
    }

    /// The next line.
    pub(crate) fn line(&self) -> String {
        let line = self.lines.recv_timeout(hang_limit(SOON));
        line.unwrap_or_else(|error| panic!("{}: no line ({error})", self.what))
    }

    /// The next line, which begins so; the rest of it.
    pub(crate) fn line_with(&self, begin: &str) -> String {
        let line = self.line();
        let rest = line.strip_prefix(begin).map(str::to_owned);
        rest.unwrap_or_else(|| panic!("{}: '{line}' in place of '{begin}'", self.what))
    }

    /// Writes a line to it.
    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.child.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for its end, which must be good.
    pub(crate) fn end(mut self) {
        drop(self.child.0.stdin.take());
        let status = self.child.wait(SOON);
        let status = status.unwrap_or_else(|| panic!("{}: it does not end", self.what));
        let left: Vec<String> = self.lines.iter().collect();
        assert!(status.success(), "{}: {status}: {left:#?}", self.what);
    }
}
