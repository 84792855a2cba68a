//! The C ABI is not changed: what abi-1.txt records is still there as it was, and all that is there is recorded.
//!
//! Functions with their types come from the headers, sizes, offsets and constants from a program that a compiler
//! makes of them, and what the library exports from the library. `GPUNET_RECORD=1 cargo test -p gpunet-c --test
//! abi` adds what is new; the minor version (GPUNET_C_ABI_MINOR in device.h, `GPUNET_C_ABI` in
//! device/src/c_abi.rs) goes up with a device function that is new in a release.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::sync::LazyLock;

/// What the recorded lines begin with.
const OPENING: &str = "\
# The C ABI, version 1: nothing here is ever removed or changed (tests/abi.rs). Sizes and offsets are those of x86-64.
";

/// Numbers that a later version raises.
const GROWING: [&str; 1] = ["GPUNET_C_ABI_MINOR"];

/// What a compiler's preprocessor makes of a header.
fn preprocessed(compiler: &[&str], header: &str, options: &[&str]) -> String {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(options).arg("-E").arg("-I");
    command.arg(common::here().join("include"));
    command.arg(common::here().join("include/gpunet").join(header));
    common::run(&mut command, common::SOON)
}

/// Words with one space between them, and none where C needs none.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .replace(" *", "*")
        .replace("* ", "*")
        .replace("( ", "(")
        .replace(" )", ")")
        .replace("(void)", "()")
}

/// The declarations of functions whose names begin so: name and declaration.
fn functions(text: &str, prefix: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for statement in text.split([';', '{', '}']) {
        // Inside extern "C" blocks, behind attributes.
        let statement = plain(statement.rsplit("\"C\"").next().unwrap_or_default());
        let statement = statement.trim_start_matches("[[noreturn]] ").replace("std::", "");
        let Some((head, _)) = statement.split_once('(') else { continue };
        let name = head.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
        let is_call = head.starts_with("return ");
        if name.starts_with(prefix)
            && !head.contains("typedef")
            && !is_call
            && head.len() > name.len()
        {
            found.push((name, statement));
        }
    }
    found
}

/// The types that are no structs.
fn types(text: &str) -> impl Iterator<Item = String> {
    let statements = text.split([';', '{', '}']).map(plain);
    let is_ours = |line: &String| line.contains("gpunet_") && !line.starts_with("typedef struct");
    statements.filter(|line| line.starts_with("typedef ")).filter(is_ours)
}

/// The structs that are defined, with their fields.
fn structs(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("typedef struct gpunet_") {
        let rest = &text[at + "typedef struct ".len()..];
        let Some((head, body)) = rest.split_once('{') else { continue };
        // One that is only declared.
        if head.contains(';') {
            continue;
        }
        let body = body.split_once('}').expect("a struct ends").0;
        let field = |line: &str| {
            let line = line.trim();
            if let Some((_, name)) = line.split_once("(*") {
                return name.split_once(')').map(|(name, _)| name.to_owned());
            }
            let name = line.split('[').next()?.rsplit([' ', '*']).next()?;
            (!name.is_empty()).then(|| name.to_owned())
        };
        found.push((head.trim().to_owned(), body.split(';').filter_map(field).collect()));
    }
    found
}

/// The names of constants: of enums, and of macros that have a value.
fn constants(text: &str, macros: &str) -> BTreeSet<String> {
    let is_name = |word: &str| {
        word.starts_with("GPUNET_")
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let of_enums =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_name(word));
    let of_macros = macros.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
        (is_name(name) && value.starts_with(|c: char| c.is_ascii_digit() || c == 'U'))
            .then_some(name)
    });
    let all = of_enums.chain(of_macros).map(str::to_owned);
    all.filter(|name| !GROWING.contains(&name.as_str())).collect()
}

/// A program that prints sizes, offsets and values.
fn measured(structs: &[(String, Vec<String>)], constants: &BTreeSet<String>) -> String {
    let mut text = "#include <stdio.h>\n#include <gpunet/gpunet.h>\nint main(void) {\n".to_owned();
    for (name, fields) in structs {
        let _ = writeln!(
            text,
            "printf(\"struct {name}: %zu bytes, aligned to %zu\\n\", sizeof({name}), _Alignof({name}));"
        );
        for field in fields {
            let _ = writeln!(
                text,
                "printf(\"field {name}.{field}: at %zu, %zu bytes\\n\", offsetof({name}, {field}), \
                 sizeof((({name} *)0)->{field}));"
            );
        }
    }
    for name in constants {
        let _ =
            writeln!(text, "printf(\"constant {name} = %llu\\n\", (unsigned long long){name});");
    }
    text + "return 0;\n}\n"
}

/// All that the ABI has, a line each, and the names of functions of the library. Found out once.
static PRESENT: LazyLock<(BTreeSet<String>, BTreeSet<String>)> = LazyLock::new(present);

fn present() -> (BTreeSet<String>, BTreeSet<String>) {
    let c = ["cc", "-std=c11", "-x", "c"];
    let text = preprocessed(&c, "gpunet.h", &["-P"]);
    let macros = preprocessed(&c, "gpunet.h", &["-dM"]);
    let emulated = preprocessed(&["g++", "-std=c++17", "-x", "c++"], "emulated.hpp", &["-P"]);
    let mut lines = BTreeSet::new();
    let mut names = BTreeSet::new();
    let device_text = preprocessed(&c, "device.h", &["-P"]);
    let device: BTreeSet<_> = functions(&device_text, "gpunet_").into_iter().collect();
    let of_emulated = functions(&emulated, "gpunet_emulated_");
    for (kind, found) in [("host", functions(&text, "gpunet_")), ("emulated", of_emulated)] {
        assert!(found.len() >= 10, "{kind}: only {} functions were found", found.len());
        for (name, declaration) in found {
            let is_device = device.contains(&(name.clone(), declaration.clone()));
            let kind = if is_device { "device" } else { kind };
            lines.insert(format!("{kind} function {declaration}"));
            names.insert(name);
        }
    }
    lines.extend(types(&text).map(|line| format!("host {line}")));
    let folder = common::folder("abi");
    common::place_library(&folder);
    let source = folder.join("measured.c");
    fs::write(&source, measured(&structs(&text), &constants(&text, &macros))).unwrap();
    common::compile(&source, &folder.join("measured"), &[]);
    let printed = common::run(&mut Command::new(folder.join("measured")), common::SOON);
    lines.extend(printed.lines().map(str::to_owned));
    (lines, names)
}

#[test]
fn the_abi_is_as_it_was_recorded() {
    let (present, _) = &*PRESENT;
    let path = common::here().join("abi-1.txt");
    let recorded: BTreeSet<String> = fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let gone: Vec<_> = recorded.difference(present).collect();
    assert!(gone.is_empty(), "the C ABI has lost or changed what programs use: {gone:#?}");
    let new: Vec<_> = present.difference(&recorded).collect();
    if std::env::var_os("GPUNET_RECORD").is_some() {
        let lines: String = present.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(path, format!("{OPENING}{lines}")).unwrap();
        return;
    }
    assert!(
        new.is_empty(),
        "the C ABI has what is not recorded; `GPUNET_RECORD=1 cargo test -p gpunet-c --test abi` adds it, and \
         then it stays: {new:#?}"
    );
}

#[test]
fn the_library_exports_what_headers_declare_and_nothing_else() {
    let (_, declared) = &*PRESENT;
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only"]).arg(common::built().join("libgpunet.so"));
    let symbols = common::run(&mut command, common::SOON);
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = declared.difference(&exported).collect();
    assert!(missing.is_empty(), "declared, and not exported: {missing:?}");
    let extra: Vec<_> = exported.difference(declared).collect();
    assert!(extra.is_empty(), "exported, and not declared: {extra:?}");
}

#[test]
fn versions_of_headers_and_library_agree() {
    let text = fs::read_to_string(common::here().join("include/gpunet/device.h")).unwrap();
    let number = |name: &str| -> u32 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.unwrap().trim().parse().unwrap()
    };
    let versions = number("GPUNET_C_ABI_MAJOR") << 16 | number("GPUNET_C_ABI_MINOR");
    assert_eq!(gpunet::gpunet_c_abi_version(), versions);
}

#[test]
fn changes_would_be_seen() {
    let text = "typedef struct gpunet_a gpunet_a;\ntypedef struct gpunet_b { uint32_t x[3]; const char *y; \
                void (*z)(void *); } gpunet_b; enum { GPUNET_ONE = 1 };\nextern \"C\" {\nint32_t \
                gpunet_f(const struct gpunet_a *a,\n   size_t b); void gpunet_g(void); }";
    let expected = vec![("gpunet_b".to_owned(), ["x", "y", "z"].map(str::to_owned).to_vec())];
    assert_eq!(structs(text), expected);
    let found = functions(text, "gpunet_");
    let declarations: Vec<&str> =
        found.iter().map(|(_, declaration)| declaration.as_str()).collect();
    assert_eq!(
        declarations,
        ["int32_t gpunet_f(const struct gpunet_a*a, size_t b)", "void gpunet_g()"]
    );
    let names =
        constants(text, "#define GPUNET_TWO 2\n#define GPUNET_GUARD\n#define GPUNET_CALL(x) x\n");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["GPUNET_ONE", "GPUNET_TWO"]);
}
