//! What the text of a PTX image says of itself: its kernels, whether it calls the device library, the
//! version of the memory contract that it was built for. No driver is asked.

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
    fn the_library_has_the_version_of_this_program() {
        if let Ok(text) = super::super::super::library::LIBRARY.text() {
            check_abi("library", &text, LIBRARY_MARK).unwrap();
            assert!(!calls_library(&text));
            assert!(entries(&text).is_empty());
        }
    }
}
