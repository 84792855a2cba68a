//! Rules for device code that no compiler checks, in its source and in its PTX; which packages import which; and the
//! glossary.
//!
//! Each rule first proves on a planted violation that it can fail.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::context::Context;
use crate::glossary;
use crate::report::Outcome;
use crate::workspace::Workspace;

/// What must stand in the comment above a loop that is no wait: why it ends.
const COUNTED: &str = "Counted:";
/// Where waits are, all with a deadline.
const WAITS: &str = "wait.rs";
/// Instructions in which threads synchronize. LLVM may move or merge assembly that holds one.
const CONVERGENT: &[&str] = &["bar.", "barrier", "shfl", "vote", "match.", "redux", "elect"];
/// The instructions that read and write a word at once: the exchange and the relaxed
/// compare-and-exchange, for words in GPU memory, and the ordered one for the whole system.
const EXCHANGES: &[&str] = &[
    "atom.acquire.gpu.global.or.b64",
    "atom.relaxed.gpu.global.or.b64",
    "atom.relaxed.gpu.global.cas.b64",
    "atom.acq_rel.sys.global.cas.b64",
];
/// Functions through which every byte goes, as their mangled names end. They have no memory of their
/// own: what ptxas keeps on the stack for them are registers of their callers.
const DATA_PATH: &[&str] = &[
    "4copy7aligned",
    "4copy9unaligned",
    "6packet10packet_out",
    "6packet9packet_in",
    "6finish6finish",
    "7receive7receive",
    "7receive11await_bytes",
    "4send4send",
];

/// The layers of the project as folders, the lowest first. A package imports packages of its own layer and of lower
/// ones, in its tests and build script as well.
const LAYERS: &[&[&str]] = &[
    &["device"],
    &["rsocket-shim", "gpu-usermap"],
    &["host"],
    &["host/c", "host/python", "host/examples"],
    &["apps"],
    &["utils"],
];

/// How the kernel begins in PTX that was written to show copied calls.
pub(crate) const ONE_CALL: &str = ".entry one_call(";

/// The step of `cargo xtask test` over the source.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    prove()?;
    let kernels = context.workspace.kernel_crates().map(|member| member.folder.join("src"));
    let mut outcome = in_source(&context.workspace.root, kernels)?;
    let imports = imports(&context.workspace);
    ensure!(!imports.is_empty(), "cargo names no package that imports another");
    let wrong = upward_imports(&imports);
    outcome.passed += usize::from(wrong.is_empty());
    outcome.failed.extend(wrong);
    let (wrong, words) = glossary::check(&context.workspace.root)?;
    outcome.passed += usize::from(wrong.is_empty());
    outcome.failed.extend(wrong);
    outcome.remark += &format!(", {words} words of the glossary");
    Ok(outcome)
}

/// Looks at the device crate under `root`, and at folders of kernels.
fn in_source(root: &Path, kernels: impl Iterator<Item = PathBuf>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut files = 0;
    for folder in kernels.chain([root.join("device/src")]) {
        each_file(&folder, &mut |path, text| {
            files += 1;
            let is_library = path.starts_with(root.join("device"));
            let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
            let mut wrong = convergent_in_assembly(text);
            wrong.extend(references_in_signatures(text));
            // The emulated GPU's side is no device code; kernels are programs.
            if is_library && !name.ends_with("emulated.rs") && !name.ends_with(WAITS) {
                wrong.extend(uncounted_loops(text));
            }
            outcome.failed.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
        })?;
    }
    ensure!(files > 20, "only {files} files of device code were found");
    outcome.passed = usize::from(outcome.failed.is_empty());
    outcome.remark = format!("{files} files of device code");
    Ok(outcome)
}

/// What is wrong with the PTX of the device library, or of a kernel crate.
pub(crate) fn in_ptx(ptx: &str, is_library: bool) -> Result<Vec<String>> {
    prove()?;
    let mut wrong = if is_library { other_exchanges(ptx) } else { compilers_exchanges(ptx) };
    wrong.extend(copied_calls(ptx));
    wrong.extend(if is_library { frames(ptx) } else { copies_of_the_library(ptx) });
    Ok(wrong)
}

/// A rule, with a text that breaks it and one that does not.
struct Proof<'a> {
    about: &'a str,
    rule: fn(&str) -> Vec<String>,
    planted: &'a str,
    clean: &'a str,
}

/// Each rule finds what was planted for it, and nothing where nothing is wrong.
fn prove() -> Result<()> {
    let frame = ".func _X4copy7aligned(\n)\n{\n\t.local .align 8 .b8 \td[8];\n";
    let proofs = [
        Proof {
            about: "loops",
            rule: uncounted_loops,
            planted: "fn f() {\n    // Until it is done.\n    loop {\n",
            clean: "// Counted: by n.\nwhile at < n {\n// loop {\n/// while\nlet a = \"loop {\";\n",
        },
        Proof {
            about: "assembly",
            rule: convergent_in_assembly,
            planted: "unsafe { asm!(\n    \"bar.warp.sync {};\", in(reg32) mask) };",
            clean: "asm!(\"mov.u64 {}, %clock64;\", out(reg64) now); // not bar.sync",
        },
        Proof {
            about: "signatures",
            rule: references_in_signatures,
            planted: "kernels! {\n    pub fn k(net: Net,\n        words: &Words) {\n",
            clean: "kernels! {\n    pub fn k(net: Net) {\n        let a = &b;\n    }\n}\nfn f(a: &u8) {}",
        },
        Proof {
            about: "exchanges",
            rule: other_exchanges,
            planted: "\t@%p1 atom.relaxed.gpu.global.add.u64 \t%rd1, [%rd2], 1;",
            clean: "\tatom.acq_rel.sys.global.cas.b64 \t%rd1, [%rd2];\n\tbarrier.cta.red.or.pred %p1, 0;",
        },
        Proof {
            about: "exchanges that the compiler makes",
            rule: compilers_exchanges,
            planted: "\t// begin inline asm\n\tatom.acquire.gpu.add.u32 %r1, [%rd1], %r2;\n\
                \t// end inline asm\n\tatom.global.add.u32 \t%r3, [%rd2], 1;",
            clean: "\t// begin inline asm\n\tatom.acquire.gpu.add.u32 %r1, [%rd1], %r2;\n\
                \t// end inline asm\n\tatom.acq_rel.sys.global.cas.b64 \t%rd1, [%rd2];",
        },
        Proof {
            about: "frames",
            rule: frames,
            planted: &format!("{WITHOUT_FRAMES}{frame}"),
            clean: WITHOUT_FRAMES,
        },
        Proof {
            about: "copied calls",
            rule: copied_calls,
            planted: ".entry one_call(\n)\n{\ncall gpunet_send;\ncall gpunet_send;\ncall gpunet_send_long;\n\
                call gpunet_send_long;\ncall gpunet_send_ring;\n}\n",
            clean: ".entry one_call(\n)\n{\ncall gpunet_send;\ncall gpunet_send_long;\ncall gpunet_send_ring;\n\
                call (r), gpunet_send, (\n}\ngpunet_send\n",
        },
        Proof {
            about: "imports",
            rule: upward_imports,
            planted: "host/e2e apps/kernels\n",
            clean: "host/c host\nhost device/support\nhost host/sockets\nutils/soak host/e2e/kernels\n",
        },
        Proof {
            about: "copies of the library",
            rule: copies_of_the_library,
            planted: WITHOUT_FRAMES,
            clean: ".extern .func (.param .b64 r) gpunet_send\n(\n)\n;\n.entry k(\n)\n{\n}\n",
        },
    ];
    for Proof { about, rule, planted, clean } in proofs {
        ensure!(!rule(planted).is_empty(), "the rule about {about} misses what was planted");
        let found = rule(clean);
        ensure!(found.is_empty(), "the rule about {about} finds what is not there: {found:?}");
    }
    Ok(())
}

/// All functions of the data path, as they should be.
const WITHOUT_FRAMES: &str = ".func _X4copy7aligned(\n)\n{\n}\n\
    .func _X4copy9unaligned(\n)\n{\n}\n\
    .func _X6packet10packet_out(\n)\n{\n}\n.func  (.param .b64 r) _X6packet9packet_in(\n)\n{\n}\n\
    .func _X6finish6finish(\n)\n{\n}\n.func _X7receive7receive(\n)\n{\n}\n\
    .func _X7receive11await_bytes(\n)\n{\n}\n.func _X4send4send(\n)\n{\n}\n\
    .func _Xother(\n)\n{\n\t.local .align 8 .b8 \td[8];\n}\n";

fn each_file(folder: &Path, f: &mut dyn FnMut(&Path, &str)) -> Result<()> {
    let what = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(what)? {
        let path = entry.with_context(what)?.path();
        if path.is_dir() {
            each_file(&path, f)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            f(&path, &text);
        }
    }
    Ok(())
}

/// A line without its comment and without what stands in quotes.
fn code(line: &str) -> String {
    let mut quoted = false;
    let mut code = String::new();
    for (at, letter) in line.char_indices() {
        if letter == '"' {
            quoted = !quoted;
        } else if !quoted && line[at..].starts_with("//") {
            break;
        } else if !quoted {
            code.push(letter);
        }
    }
    code
}

/// Loops whose comment does not say why they end. `for` counts by itself.
fn uncounted_loops(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut wrong = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = code(line);
        let is_loop = code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == "while" || word == "loop" && code.trim_end().ends_with("loop {"));
        let comment = lines[..at].iter().rev().take_while(|line| line.trim().starts_with("//"));
        if is_loop && !comment.into_iter().any(|line| line.contains(COUNTED)) {
            wrong.push(format!(
                "line {}: a loop that is neither a wait (in {WAITS}) nor says `{COUNTED}` why it ends",
                at + 1
            ));
        }
    }
    wrong
}

/// Assembly in which threads synchronize.
fn convergent_in_assembly(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    // Behind `global_asm!` there are declarations alone.
    for (at, _) in text.match_indices("asm!(") {
        if text[..at].ends_with("global_") || code_before(text, at).contains("//") {
            continue;
        }
        let block = &text[at..end_of(text, at)];
        for instruction in CONVERGENT.iter().filter(|instruction| block.contains(**instruction)) {
            let line = text[..at].lines().count();
            wrong.push(format!(
                "line {line}: assembly with `{instruction}`, which is not convergent"
            ));
        }
    }
    wrong
}

/// What stands on the line before that place.
fn code_before(text: &str, at: usize) -> &str {
    text[..at].rsplit('\n').next().unwrap_or("")
}

/// Where the bracket closes that opens behind `at`.
fn end_of(text: &str, at: usize) -> usize {
    let mut depth = 0;
    let mut quoted = false;
    for (offset, letter) in text[at..].char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return at + offset;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// Kernels that take a reference: the compiler may load through it as if nobody wrote there.
fn references_in_signatures(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (block, _) in text.match_indices("kernels! {") {
        let end = text[block..].find("\n}").map_or(text.len(), |at| block + at);
        for (at, _) in text[block..end].match_indices("pub fn ") {
            let from = block + at;
            let signature = &text[from..end_of(text, from)];
            if signature.contains('&') {
                let line = text[..from].lines().count();
                wrong.push(format!("line {line}: a kernel takes a reference"));
            }
        }
    }
    wrong
}

/// What packages import, a line each: the folder of one, and of another that it imports.
fn imports(workspace: &Workspace) -> String {
    let name = |folder: &Path| {
        folder.strip_prefix(&workspace.root).unwrap_or(folder).display().to_string()
    };
    let mut lines = String::new();
    for member in &workspace.members {
        for folder in &member.imports {
            lines += &format!("{} {}\n", name(&member.folder), name(folder));
        }
    }
    lines
}

/// Imports of a package in a higher layer, or where a folder is in none.
fn upward_imports(imports: &str) -> Vec<String> {
    let layer = |folder: &str| {
        // From the end: a folder in another may be a layer of its own.
        LAYERS
            .iter()
            .rposition(|layer| layer.iter().any(|name| Path::new(folder).starts_with(name)))
    };
    let pairs = imports.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|(from, to)| layer(to).is_none() || layer(to) > layer(from))
        .map(|(from, to)| format!("{from} imports {to}, which is in no layer at or below its own"))
        .collect()
}

/// Read-modify-write instructions beside the two that are meant.
fn other_exchanges(ptx: &str) -> Vec<String> {
    let instructions = ptx.lines().map(|line| {
        let line = line.trim();
        if line.starts_with('@') { line.split_once(' ').map_or("", |(_, rest)| rest) } else { line }
    });
    instructions
        .filter(|line| line.starts_with("atom.") || line.starts_with("red."))
        .filter(|line| !EXCHANGES.iter().any(|meant| line.starts_with(meant)))
        .map(|line| format!("`{line}` is not among the instructions that shared words permit"))
        .collect()
}

/// The same in kernels, which also have those of `gpunet_device::sync`: written out as assembly, with
/// their scope and ordering. What the compiler makes of `core`'s has neither.
fn compilers_exchanges(ptx: &str) -> Vec<String> {
    let mut assembly = false;
    let compiled = ptx.lines().filter(|line| {
        let line = line.trim();
        assembly = line == "// begin inline asm" || assembly && line != "// end inline asm";
        !assembly
    });
    other_exchanges(&compiled.fold(String::new(), |text, line| text + line + "\n"))
}

/// Functions of the data path that have a stack frame, or that are not there at all.
fn frames(ptx: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in DATA_PATH {
        let head = format!("{name}(");
        let bodies = ptx.match_indices(&head).filter_map(|(at, _)| {
            let body = &ptx[at..];
            let open = body.find(['{', ';'])?;
            // A declaration ends before it has a body.
            let body = body[open..].strip_prefix('{')?;
            Some(&body[..body.find("\n}").unwrap_or(body.len())])
        });
        let mut found = false;
        for body in bodies {
            found = true;
            if body.contains(".local ") {
                wrong.push(format!("{name}, which all bytes go through, has a stack frame"));
            }
        }
        if !found {
            wrong.push(format!("{name} is not there: the rule about stack frames must follow it"));
        }
    }
    wrong
}

/// Functions of the library that stand in an image of kernels: it is linked with them.
fn copies_of_the_library(ptx: &str) -> Vec<String> {
    let copied = DATA_PATH.iter().filter(|name| ptx.contains(&format!("{name}(")));
    copied.map(|name| format!("{name}, a function of the device library, is in it")).collect()
}

/// Whether the kernel that was written for it has one call where its source has one. A compiler that
/// copies it into both arms of a branch breaks every cooperative call.
fn copied_calls(ptx: &str) -> Vec<String> {
    let Some((_, kernel)) = ptx.split_once(ONE_CALL) else { return Vec::new() };
    let kernel = kernel.split("\n}").next().unwrap_or(kernel);
    let calls = |of: &str| {
        let name = |line: &str| line.split([' ', ',', ';', '\t']).any(|word| word == of);
        kernel.lines().filter(|line| name(line)).count()
    };
    // In its loop a message of any length, by the way that is short for it; behind it one byte.
    let wanted = [("gpunet_send", 2), ("gpunet_send_long", 1), ("gpunet_send_ring", 1)];
    let differs = wanted.iter().filter(|(of, count)| calls(of) != *count);
    differs
        .map(|(of, count)| {
            let found = calls(of);
            format!("one_call calls {of} in {count} places, and its PTX in {found}: calls were copied or merged")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_fail() {
        prove().expect("each finds what was planted");
    }

    #[test]
    fn device_code_keeps_the_rules() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let outcome = in_source(&root, std::iter::empty()).expect("it can be read");
        assert!(outcome.failed.is_empty(), "{}", outcome.failed.join("\n"));
    }

    #[test]
    fn a_folder_in_a_folder_may_be_a_layer_of_its_own() {
        let up = "host imports host/c, which is in no layer at or below its own";
        assert_eq!(upward_imports("host host/c\nhost/c host\nhost/c/kernels host/c\n"), [up]);
        assert_eq!(upward_imports("tools host\nutils tools\ntools tools/x\n").len(), 3);
    }

    #[test]
    fn comments_and_quotes_are_no_code() {
        assert_eq!(code("a(\"// b\"); // c"), "a(); ");
        assert!(uncounted_loops("let x = loop {").len() == 1);
        assert!(uncounted_loops("fn looping() {}\nlet while_ = 1;").is_empty());
    }
}
