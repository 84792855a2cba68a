//! What the text of a PTX image says of itself: its kernels, whether it calls the device library, the
//! version of the memory contract that it was built for. No driver is asked.

use std::collections::{HashMap, HashSet};

use gpunet_device::abi::ABI;

use super::super::LoadError;
use super::super::image::{C_ABI_MARK, check_c_abi};

/// The name under which an image of kernels carries the version it was built for.
pub(super) const ABI_MARK: &str = "GPUNET_ABI";
/// The same of the device library.
pub(super) const LIBRARY_MARK: &str = "GPUNET_LIBRARY_ABI";
/// What the names of the library's functions begin with.
const FUNCTIONS: &str = "gpunet_";

/// Whether functions of the device library are called, which another image must define.
pub(super) fn calls_library(ptx: &str) -> bool {
    ptx.lines().any(|line| {
        line.trim_start().starts_with(".extern .func") && name_of(line).starts_with(FUNCTIONS)
    })
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
pub(super) fn check_abi(module: &str, ptx: &str, mark: &str) -> Result<(), LoadError> {
    if !ptx.contains(".version") {
        return Ok(());
    }
    let found = match abi(ptx, mark) {
        Some(found) if found == ABI => return Ok(()),
        Some(found) => describe(found),
        None => "it does not say which".to_owned(),
    };
    Err(version_error(module, &found))
}

/// The same of an image of any language: what it says of itself must fit, and if it calls the library it
/// says something. One that has a device library inside is for the same version of that.
pub(super) fn check_marks(image: &str, ptx: &str) -> Result<(), LoadError> {
    if declaration(ptx, LIBRARY_MARK).is_some() {
        check_abi(image, ptx, LIBRARY_MARK)?;
    }
    if declaration(ptx, ABI_MARK).is_some() {
        return check_abi(image, ptx, ABI_MARK);
    }
    if declaration(ptx, C_ABI_MARK).is_some() || calls_library(ptx) {
        let found = abi(ptx, C_ABI_MARK).map(|[major, minor, ..]| [major, minor]);
        return check_c_abi(image, found);
    }
    Ok(())
}

/// What is wrong with four words of an image that are to be those of this program.
pub(super) fn check_words(image: &str, found: [u32; 4]) -> Result<(), LoadError> {
    match found == ABI {
        true => Ok(()),
        false => Err(version_error(image, &describe(found))),
    }
}

fn version_error(module: &str, found: &str) -> LoadError {
    let expected = describe(ABI);
    LoadError::Version(format!(
        "module '{module}' was built for another version of gpunet-device ({found}, this program has \
         {expected}): build both from one source"
    ))
}

/// The line that declares a variable.
fn declaration<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    let array = format!(" {name}[");
    let is_variable = |line: &str| line.contains(".global") || line.contains(".const");
    ptx.lines().find(|line| is_variable(line) && line.contains(&array))
}

/// The words of the variable `mark`, four at most: bytes, as Rust's compiler writes them, or words.
fn abi(ptx: &str, mark: &str) -> Option<[u32; 4]> {
    let line = declaration(ptx, mark)?;
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

/// Functions that a linker's log says nobody defines.
pub(super) fn missing(log: &str) -> Vec<&str> {
    let says = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.contains("undefined reference to") || line.contains("unresolved extern")
    };
    let mut names: Vec<&str> =
        log.lines().filter(says).filter_map(|line| line.split('\'').nth(1)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The kernels in a PTX text: names, and the bytes of their parameters.
pub(super) fn entries(ptx: &str) -> Vec<(&str, Vec<usize>)> {
    let mut entries: Vec<(&str, Vec<usize>)> = Vec::new();
    // Whether the lines are those of a kernel's parameters.
    let mut listing = false;
    for line in ptx.lines().map(|line| line.split("//").next().unwrap_or("")) {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next();
            entries.extend(name.filter(|name| !name.is_empty()).map(|name| (name, Vec::new())));
            listing = true;
        }
        if let (true, Some((_, parameters))) = (listing, entries.last_mut()) {
            parameters.extend(line.split(".param ").skip(1).map(parameter_bytes));
        }
        listing &= !line.contains(')');
    }
    entries
}

/// Bytes of a parameter, from its declaration behind `.param`: the bits in its type's name, times the
/// elements of an array.
fn parameter_bytes(declaration: &str) -> usize {
    let declaration = declaration.split([',', ')']).next().unwrap_or("");
    let bits = declaration
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('.'))
        .find_map(|kind| kind.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse().ok());
    let elements = declaration
        .split_once('[')
        .and_then(|(_, rest)| rest.split(']').next()?.trim().parse::<usize>().ok());
    bits.unwrap_or(0_usize) / 8 * elements.unwrap_or(1)
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
        assert_eq!(entries(ptx), [("echo", vec![8, 8]), ("spin", vec![])]);
        let nvcc = ".visible .entry serve(\n\t.param .align 8 .b8 serve_param_0[16],\n\
                    \t.param .u32 serve_param_1,\n\t.param .u64 .ptr .global .align 4 p,\n\
                    \t.param .f64 d, .param .b8 flag\n)\n{\n";
        assert_eq!(entries(nvcc), [("serve", vec![16, 4, 8, 8, 1])]);
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
    fn images_of_other_languages_say_what_they_are_for() {
        let calls = ".extern .func  (.param .b64 func_retval0) gpunet_socket\n(\n)\n;\n";
        let mark = |kind, values| {
            format!(".visible {kind} .align 4 .u32 gpunet_c_abi[2] = {{{values}}};\n")
        };
        let check = |text: &str| check_marks("i", &format!(".version 8.0\n{text}"));
        check(&format!("{}{calls}", mark(".global", "1"))).unwrap();
        check(&format!("{}{calls}", mark(".const", "1, 0"))).unwrap();
        check(".extern .func (.param .b32 r) vprintf\n(\n)\n;\n").unwrap();
        let error = check(&format!("{}{calls}", mark(".global", "7, 3"))).unwrap_err().to_string();
        assert!(error.contains("(7.3, this program has 1."), "{error}");
        assert!(matches!(check(calls), Err(LoadError::Version(_))));
        // With a device library inside.
        let [a, b, c, d] = ABI;
        let inside = |version| {
            let library =
                format!(".global .u32 GPUNET_LIBRARY_ABI[4] = {{{a}, {version}, {c}, {d}}};\n");
            check(&format!("{}{library}", mark(".global", "1")))
        };
        inside(b).unwrap();
        assert!(matches!(inside(b + 1), Err(LoadError::Version(_))));
        assert!(check_words("i", ABI).is_ok() && check_words("i", [a, b + 1, c, d]).is_err());
    }

    #[test]
    fn missing_functions_are_found_in_logs() {
        let log = "error   : Undefined reference to 'lost' in 'kernels'\n\
                   ptxas fatal   : Unresolved extern function 'gone'\nfatal: something else\n\
                   error   : Undefined reference to 'lost' in 'other'";
        assert_eq!(missing(log), ["gone", "lost"]);
        assert!(missing("").is_empty());
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
            // What is seen from outside may be in a program's own image, too.
            for line in
                text.lines().filter(|line| line.contains(".visible") || line.contains(".common"))
            {
                let own = line.contains(" gpunet_") || line.contains(&format!(" {LIBRARY_MARK}["));
                assert!(own, "{line}");
            }
        }
    }
}
