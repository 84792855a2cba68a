//! What the text of a PTX image says of itself: its kernels, whether it calls the device library, the
//! version of the memory contract that it was built for. No driver is asked.

use std::collections::{HashMap, HashSet};

use gpunet_device::abi::ABI;

use super::super::GpuError;

/// The name under which an image of kernels carries the version it was built for.
pub(super) const ABI_MARK: &str = "GPUNET_ABI";
/// The same of the device library.
pub(super) const LIBRARY_MARK: &str = "GPUNET_LIBRARY_ABI";

/// Whether functions are called that another image must define.
pub(super) fn calls_library(ptx: &str) -> bool {
    ptx.contains(".extern .func")
}

/// The device library as far as a module reaches it: without the functions that none of its kernels
/// calls, directly or through others. The driver would translate all of them.
pub(super) fn reached(library: &str, kernels: &str) -> String {
    let parts = parts(library);
    // Of a name the function that has it; declarations follow their function.
    let bodies: HashMap<&str, &str> = parts
        .iter()
        .filter_map(|part| {
            part.function.filter(|_| part.text.contains('{')).map(|name| (name, part.text))
        })
        .collect();
    let names = |text: &str| -> Vec<&str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
        words.filter_map(|word| bodies.get_key_value(word).map(|(name, _)| *name)).collect()
    };
    let mut reached = HashSet::new();
    // What stands between functions may hold their addresses.
    let mut next = names(kernels);
    next.extend(
        parts.iter().filter(|part| part.function.is_none()).flat_map(|part| names(part.text)),
    );
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            next.extend(names(bodies[name]));
        }
    }
    let kept = |part: &&Part| part.function.is_none_or(|name| reached.contains(name));
    parts.iter().filter(kept).map(|part| part.text).collect()
}

/// A function of an image, declared or defined, or what stands between two.
struct Part<'a> {
    function: Option<&'a str>,
    text: &'a str,
}

/// An image's parts, in their order. A function begins with a line that has `.func` behind its linkage,
/// and ends with the next line that is `}` (or `;`, where it is only declared) and nothing else.
fn parts(ptx: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut function = None;
    for line in ptx.split_inclusive('\n') {
        let (begin, end) = (at, at + line.len());
        at = end;
        let begins = [".func", ".weak .func", ".visible .func"];
        if function.is_none() && begins.iter().any(|linkage| line.starts_with(linkage)) {
            parts.push(Part { function: None, text: &ptx[start..begin] });
            start = begin;
            function = Some(name_of(line));
        }
        if let Some(name) = function
            && matches!(line.trim_end(), "}" | ";")
        {
            parts.push(Part { function: Some(name), text: &ptx[start..end] });
            start = end;
            function = None;
        }
    }
    parts.push(Part { function: None, text: &ptx[start..] });
    parts
}

/// The name in the first line of a function: behind its result, where it has one.
fn name_of(line: &str) -> &str {
    let (_, rest) = line.split_once(".func").unwrap_or(("", line));
    let rest = rest.trim_start();
    let rest = if rest.starts_with('(') {
        rest.split_once(')').map_or("", |(_, rest)| rest).trim_start()
    } else {
        rest
    };
    rest.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or("")
}

/// Compares an image's version with this program's. What is no PTX is left to the driver to refuse.
pub(super) fn check_abi(module: &str, ptx: &str, mark: &str) -> Result<(), GpuError> {
    if !ptx.contains(".version") {
        return Ok(());
    }
    let found = match abi(ptx, mark) {
        Some(found) if found == ABI => return Ok(()),
        Some(found) => describe(found),
        None => "it does not say which".to_owned(),
    };
    Err(GpuError::AbiMismatch { module: module.to_owned(), expected: describe(ABI), found })
}

/// The four words of the variable `mark`: bytes, as Rust's compiler writes them, or words.
fn abi(ptx: &str, mark: &str) -> Option<[u32; 4]> {
    let declared = |line: &&str| line.contains(".global") && line.contains(&format!(" {mark}["));
    let line = ptx.lines().find(declared)?;
    let (declaration, values) = line.split_once('=')?;
    let values = values.trim().trim_end_matches(';').trim_matches(['{', '}']);
    let values: Option<Vec<u32>> =
        values.split(',').map(|value| value.trim().parse().ok()).collect();
    let values = values?;
    let mut words = [0; 4];
    let (bytes_each, most) = if declaration.contains(".b8 ") { (1, 16) } else { (4, 4) };
    if values.len() > most {
        return None;
    }
    // Zeros at the end are left out.
    for (at, value) in values.into_iter().enumerate() {
        let byte = at * bytes_each;
        words[byte / 4] |= value << (8 * (byte % 4));
    }
    Some(words)
}

/// The kernels in a PTX text: names, and how many parameters they have.
pub(super) fn entries(ptx: &str) -> Vec<(&str, usize)> {
    let mut entries: Vec<(&str, usize)> = Vec::new();
    // Whether the lines are those of a kernel's parameters.
    let mut listing = false;
    for line in ptx.lines().map(|line| line.split("//").next().unwrap_or("")) {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next();
            entries.extend(name.filter(|name| !name.is_empty()).map(|name| (name, 0)));
            listing = true;
        }
        if let (true, Some((_, parameters))) = (listing, entries.last_mut()) {
            *parameters += line.matches(".param ").count();
        }
        listing &= !line.contains(')');
    }
    entries
}

fn describe([magic, version, net, _]: [u32; 4]) -> String {
    if magic == ABI[0] {
        format!("ABI {version} with a net of {net} bytes")
    } else {
        format!("unknown mark {magic:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_ptx() {
        let ptx = "// .entry not(\n.visible .entry echo(\n\t.param .b8 x[8],\n\t.param .u64 y\n)\n\
                   { .param .b64 p; }\n.visible .func helper(.param .b32 q)\n\
                   .entry  spin\n(\n)\n{ .param .b64 p; }";
        assert_eq!(entries(ptx), [("echo", 2), ("spin", 0)]);
    }

    #[test]
    fn abis_are_described() {
        assert!(describe(ABI).starts_with(&format!("ABI {} with a net", ABI[1])));
        assert_eq!(describe([7, 1, 1, 0]), "unknown mark 0x7");
    }

    #[test]
    fn marks_are_read_as_bytes_and_as_words() {
        let bytes =
            ".visible .global .align 4 .b8 GPUNET_ABI[16] = {103, 110, 101, 116, 6, 0, 0, 0, 16};";
        let found = abi(&format!(".version 6.3\n{bytes}\n"), ABI_MARK);
        assert_eq!(found, Some([u32::from_le_bytes(*b"gnet"), 6, 16, 0]));
        let words = ".visible .global .u32 GPUNET_ABI[4] = {1, 2, 3, 4};";
        assert_eq!(abi(words, ABI_MARK), Some([1, 2, 3, 4]));
        assert_eq!(abi(words, LIBRARY_MARK), None);
        assert_eq!(abi(".global .b8 GPUNET_ABI[16] = {no};", ABI_MARK), None);
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let [a, b, c, d] = ABI;
        let image = |version| {
            format!(".version 7.0\n.global .u32 GPUNET_ABI[4] = {{{a}, {version}, {c}, {d}}};\n")
        };
        assert!(check_abi("m", &image(b), ABI_MARK).is_ok());
        let error = check_abi("m", &image(b + 1), ABI_MARK).unwrap_err().to_string();
        assert!(error.contains(&format!("ABI {}", b + 1)), "{error}");
        assert!(check_abi("m", ".version 7.0\n", ABI_MARK).is_err());
        assert!(check_abi("m", "no PTX", ABI_MARK).is_ok());
    }

    #[test]
    fn only_functions_that_are_reached_are_kept() {
        let library = ".version 7.0\n.shared .b8 s[64];\n\
            .weak .func _Xa\n(\n.param .b64 p\n)\n;\n\
            .weak .func (.param .b64 r) _Xb\n(\n)\n;\n\
            .visible .global .b8 MARK[4] = {1};\n\
            .weak .func _Xa(\n.param .b64 p\n)\n{\n\tcall.uni _Xc;\n}\n\
            .weak .func  (.param .b64 r) _Xb(\n)\n{\n\tret;\n}\n\
            .weak .func _Xc(\n)\n{\n\t{ // callseq\n\t} // callseq\n}\n\
            .visible .func  (.param .b64 r) gpunet_one(\n)\n{\n\tcall.uni _Xa;\n}\n\
            .visible .func  (.param .b64 r) gpunet_two(\n)\n{\n\tcall.uni _Xb;\n}\n";
        let kernels = ".extern .func (.param .b64 r) gpunet_one\n(\n)\n;\n";
        let kept = reached(library, kernels);
        for name in ["_Xa(", "_Xa\n", "_Xc(", "gpunet_one(", "MARK", ".shared", ".version"] {
            assert!(kept.contains(name), "{name} is missing in\n{kept}");
        }
        for name in ["_Xb", "gpunet_two"] {
            assert!(!kept.contains(name), "{name} is in\n{kept}");
        }
        let both = format!("{kernels}call.uni (r), gpunet_two");
        assert_eq!(reached(library, &both), library);
    }

    #[test]
    fn the_library_has_the_version_of_this_program() {
        if let Ok(text) = super::super::super::library::LIBRARY.text() {
            check_abi("library", &text, LIBRARY_MARK).unwrap();
            assert!(!calls_library(&text));
            assert!(entries(&text).is_empty());
            // Names that kernels have, too, would be taken for one function when they are linked.
            for part in parts(&text) {
                let name = part.function.unwrap_or("gpunet_");
                let own = name.starts_with("gpunet_") || name.contains("13gpunet_device");
                assert!(own, "{name} is no function of the library's own");
            }
        }
    }
}
