//! As much of an ELF file as images are looked at for: what machine it is for, whether it is relocatable,
//! which symbols a shared object defines. Damaged files give less, and no fault.

/// The machine number of NVIDIA GPUs.
pub(super) const EM_CUDA: u16 = 190;
/// The type of files that are to be linked.
const ET_REL: u16 = 1;
/// The type of a section with the symbols that a loader sees.
const SHT_DYNSYM: u32 = 11;
/// Bytes of a section's header and of a symbol.
const SECTION_BYTES: usize = 64;
/// Bytes of a segment's header, and the type of one that is mapped.
const SEGMENT_BYTES: usize = 56;
const PT_LOAD: u32 = 1;
const SYMBOL_BYTES: usize = 24;

/// A file of 64-bit words, little-endian.
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
    /// What it is for.
    pub(super) machine: u16,
    kind: u16,
}

/// Where a section lies.
struct Section {
    kind: u32,
    offset: usize,
    bytes: usize,
    link: usize,
}

impl<'a> Elf<'a> {
    /// The file with these bytes, if it is one.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        // Magic, 64 bits, little-endian.
        if !bytes.starts_with(b"\x7fELF\x02\x01") || bytes.len() < 64 {
            return None;
        }
        Some(Self { bytes, machine: half(bytes, 18)?, kind: half(bytes, 16)? })
    }

    /// Whether it is to be linked.
    pub(super) fn is_relocatable(&self) -> bool {
        self.kind == ET_REL
    }

    /// How many bytes the file should have at least, where it is cut off: a loader maps segments as their
    /// headers say, and the process dies (SIGBUS) of the first access behind the file's end.
    pub(super) fn missing(&self) -> Option<usize> {
        let sections = half(self.bytes, 60).unwrap_or(0) as usize * SECTION_BYTES;
        let mut needed = long(self.bytes, 40).unwrap_or(usize::MAX).saturating_add(sections);
        let start = long(self.bytes, 32).unwrap_or(usize::MAX);
        for index in 0..half(self.bytes, 56).unwrap_or(0) as usize {
            let at = start.saturating_add(index * SEGMENT_BYTES);
            let end = at.saturating_add(SEGMENT_BYTES);
            let Some(header) = self.bytes.get(at..end) else { return Some(end.max(needed)) };
            if word(header, 0) == Some(PT_LOAD) {
                let offset = long(header, 8).unwrap_or(usize::MAX);
                let bytes = long(header, 32).unwrap_or(usize::MAX);
                needed = needed.max(offset.saturating_add(bytes));
            }
        }
        (needed > self.bytes.len()).then_some(needed)
    }

    /// Names of the symbols that it exports.
    pub(super) fn exported(&self) -> Vec<&'a str> {
        let Some(symbols) = self.sections().find(|section| section.kind == SHT_DYNSYM) else {
            return Vec::new();
        };
        let Some(names) = self.sections().nth(symbols.link) else { return Vec::new() };
        let names = self.slice(&names);
        let defined = |symbol: &[u8]| {
            let (name, section) = (word(symbol, 0)? as usize, half(symbol, 6)?);
            // 0: it is another object's.
            (section != 0).then_some(name)
        };
        let text = |start: usize| {
            let rest = names.get(start..)?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            std::str::from_utf8(&rest[..end]).ok()
        };
        let symbols = self.slice(&symbols).chunks_exact(SYMBOL_BYTES);
        symbols.filter_map(defined).filter_map(text).filter(|name| !name.is_empty()).collect()
    }

    fn slice(&self, section: &Section) -> &'a [u8] {
        let end = section.offset.saturating_add(section.bytes);
        self.bytes.get(section.offset..end).unwrap_or(&[])
    }

    fn sections(&self) -> impl Iterator<Item = Section> {
        let start = long(self.bytes, 40).unwrap_or(0);
        let count = half(self.bytes, 60).unwrap_or(0) as usize;
        (0..count).map_while(move |index| {
            let at = start.checked_add(index * SECTION_BYTES)?;
            let header = self.bytes.get(at..at.checked_add(SECTION_BYTES)?)?;
            Some(Section {
                kind: word(header, 4)?,
                offset: long(header, 24)?,
                bytes: long(header, 32)?,
                link: word(header, 40)? as usize,
            })
        })
    }
}

/// Looks at everything in a file that anybody looks at.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some(elf) = Elf::parse(bytes) {
        let _ = (elf.is_relocatable(), elf.missing());
        assert!(elf.exported().iter().all(|name| name.len() <= bytes.len()));
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let number = u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?);
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library that this process has loaded.
    fn c_library() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| {
            line.split_whitespace().last().filter(|path| path.contains("libc.so"))
        });
        std::fs::read(path.expect("the C library is a file")).unwrap()
    }

    #[test]
    fn exported_symbols_are_found() {
        let bytes = c_library();
        let elf = Elf::parse(&bytes).unwrap();
        assert_ne!(elf.machine, EM_CUDA);
        assert!(!elf.is_relocatable());
        let names = elf.exported();
        assert!(names.contains(&"malloc") && names.contains(&"dlsym"), "{} names", names.len());
        // Another object's.
        assert!(!names.contains(&"_dl_fatal_printf"));
    }

    #[test]
    fn files_that_are_cut_off_are_known() {
        let bytes = c_library();
        assert_eq!(Elf::parse(&bytes).unwrap().missing(), None);
        for length in [64, 100, 4096, bytes.len() / 2, bytes.len() - 1] {
            let missing = Elf::parse(&bytes[..length]).unwrap().missing();
            assert!(
                missing.is_some_and(|needed| needed > length && needed <= bytes.len()),
                "{length}"
            );
        }
        let mut broken = bytes[..8192].to_vec();
        broken[16..64].fill(0xFF);
        assert_eq!(Elf::parse(&broken).unwrap().missing(), Some(usize::MAX));
    }

    #[test]
    fn damaged_files_give_no_fault() {
        let bytes = c_library();
        for length in [0, 5, 63, 64, 4096, bytes.len() - 1000] {
            if let Some(elf) = Elf::parse(&bytes[..length]) {
                let _ = elf.exported();
            }
        }
        let mut broken = bytes[..8192].to_vec();
        broken[16..64].fill(0xFF);
        assert!(Elf::parse(&broken).unwrap().exported().is_empty());
        assert!(Elf::parse(b"\x7fELF").is_none());
    }
}
