//! A guest's first and only file system: the set-up script, modules, programs with their
//! libraries, and the jobs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::archive::Archive;
use super::jobs::{Job, TestProgram, What};
use super::kernel::Kernel;
use super::programs::{self, Placed};

const INIT: &str = include_str!("init.sh");
const FUNCTIONS: &str = include_str!("functions.sh");

/// The archive for these jobs; `built` are their programs of this workspace.
pub(crate) fn make(kernel: &Kernel, jobs: &[&Job], built: &[Placed]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["/dev", "/proc", "/sys", "/tmp"] {
        archive.folder(folder)?;
    }
    // The kernel gives it to the first program, before that has mounted anything.
    archive.terminal("/dev/console", 5, 1)?;
    archive.program("/init", INIT.into())?;
    archive.file("/etc/passwd", b"root:x:0:0:root:/tmp:/bin/sh\n".to_vec())?;
    archive.file("/etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n".to_vec())?;
    add_modules(&mut archive, kernel)?;
    add_jobs(&mut archive, jobs)?;
    for file in programs::base()?.iter().chain(built) {
        archive.program(&file.to, read(&file.from)?)?;
        for library in programs::libraries_of(&file.from)? {
            if !archive.contains(&library.to) {
                archive.program(&library.to, read(&library.from)?)?;
            }
        }
    }
    archive.into_bytes()
}

fn add_modules(archive: &mut Archive, kernel: &Kernel) -> Result<()> {
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("/modules/{name}"), read(module)?)?;
        order.push_str(&name);
        order.push('\n');
    }
    archive.file("/modules/order", order.into())
}

fn add_jobs(archive: &mut Archive, jobs: &[&Job]) -> Result<()> {
    let mut list = String::new();
    for job in jobs {
        list.push_str(&format!("{} {}\n", job.name, job.limit));
        archive.file(&format!("/jobs/{}", job.name), script_of(job).into())?;
    }
    archive.file("/jobs/functions", FUNCTIONS.into())?;
    archive.file("/jobs/list", list.into())
}

fn script_of(job: &Job) -> String {
    match &job.what {
        What::Script(text) | What::Program { text, .. } => format!(". /jobs/functions\n{text}\n"),
        What::Tests(tests) => {
            let program = programs::path_of_test(tests);
            let TestProgram { environment, arguments, .. } = tests;
            let arguments = arguments.join(" ");
            format!(
                ". /jobs/functions\nexec env {environment} {program} --test-threads 1 {arguments}\n"
            )
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Scope;

    #[test]
    fn test_programs_get_their_arguments() {
        let arguments = &["rping", "--include-ignored"];
        let environment = "A=$B";
        let tests = TestProgram { package: "p", test: "verbs", arguments, environment };
        let job = Job {
            name: "verbs",
            what: What::Tests(tests),
            limit: 1,
            apps: false,
            from: Scope::Test,
        };
        assert_eq!(
            script_of(&job),
            ". /jobs/functions\n\
             exec env A=$B /tests/verbs --test-threads 1 rping --include-ignored\n"
        );
    }

    #[test]
    fn scripts_have_the_common_functions() {
        let job = Job {
            name: "a",
            what: What::Script("pair 1 a b"),
            limit: 1,
            apps: false,
            from: Scope::Test,
        };
        assert_eq!(script_of(&job), ". /jobs/functions\npair 1 a b\n");
        assert!(FUNCTIONS.contains("\npair() {"));
    }
}
