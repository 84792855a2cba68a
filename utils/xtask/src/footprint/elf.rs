//! Reads the objects that ptxas makes: functions, their code sizes and registers, who calls whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::elf::{FileHeader64, SHT_RELA, STT_FUNC};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, SymbolIndex};

/// The section of a function's machine code, before its name.
const TEXT: &str = ".text.";
/// The section that says how many registers each function has ...
const INFO: &str = ".nv.info";
/// ... in entries of this format and attribute, of 8 bytes: symbol and registers.
const REGISTERS: [u8; 4] = [0x04, 0x2f, 8, 0];

/// One function.
#[derive(Debug, Default)]
pub(super) struct Function {
    /// Bytes of machine code.
    pub(super) code: u32,
    /// Registers of its own.
    pub(super) registers: u32,
    /// Functions it calls, here or in another object.
    pub(super) calls: BTreeSet<String>,
}

/// What an object holds.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) functions: BTreeMap<String, Function>,
}

impl Object {
    /// Reads the object in a file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let data =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&data).with_context(|| format!("{} is no object", path.display()))
    }

    fn parse(data: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let symbols = sections.symbols(endian, data, object::elf::SHT_SYMTAB)?;
        let name_of = |index: SymbolIndex| -> Result<String> {
            let name = symbols.symbol(index)?.name(endian, symbols.strings())?;
            Ok(String::from_utf8_lossy(name).into_owned())
        };
        let is_function = |index: SymbolIndex| -> Result<bool> {
            let symbol = symbols.symbol(index)?;
            // One that another object defines has no type.
            Ok(symbol.st_type() == STT_FUNC || symbol.st_shndx(endian) == 0)
        };
        let mut this = Self::default();
        for section in sections.iter() {
            let name =
                String::from_utf8_lossy(sections.section_name(endian, section)?).into_owned();
            if let Some(function) = name.strip_prefix(TEXT) {
                let code = u32::try_from(section.sh_size(endian))?;
                this.functions.entry(function.to_owned()).or_default().code = code;
            }
        }
        for section in sections.iter() {
            let name =
                String::from_utf8_lossy(sections.section_name(endian, section)?).into_owned();
            if section.sh_type(endian) == SHT_RELA
                && let Some(caller) = name.strip_prefix(".rela").and_then(|n| n.strip_prefix(TEXT))
                && let Some((relocations, _)) = section.rela(endian, data)?
            {
                for relocation in relocations {
                    let index = SymbolIndex(relocation.r_sym(endian, false) as usize);
                    if index.0 != 0 && is_function(index)? {
                        let callee = name_of(index)?;
                        if callee != caller {
                            let function = this.functions.entry(caller.to_owned()).or_default();
                            function.calls.insert(callee);
                        }
                    }
                }
            }
            if name == INFO {
                let info = section.data(endian, data)?;
                for (symbol, registers) in registers(info)? {
                    let name = name_of(SymbolIndex(symbol as usize))?;
                    this.functions.entry(name).or_default().registers = registers;
                }
            }
        }
        if this.functions.is_empty() {
            bail!("it has no function");
        }
        Ok(this)
    }
}

/// Symbols and their registers in the bytes of the section.
fn registers(info: &[u8]) -> Result<Vec<(u32, u32)>> {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = info.get(at..at + 4) {
        // Format 4 has as many bytes behind it as its second half says, the others none.
        let bytes =
            if head[0] == 4 { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        let Some(body) = info.get(at + 4..at + 4 + bytes) else {
            bail!("{INFO} ends in the middle of an entry");
        };
        if head == REGISTERS {
            found.push((word(body), word(&body[4..])));
        }
        at += 4 + bytes;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_among_other_entries() {
        let mut info = vec![0x03, 0x50, 0, 0];
        info.extend([0x04, 0x11, 8, 0, 7, 0, 0, 0, 16, 0, 0, 0]);
        info.extend([0x04, 0x2f, 8, 0, 7, 0, 0, 0, 62, 0, 0, 0]);
        assert_eq!(registers(&info).unwrap(), [(7, 62)]);
        assert!(registers(&info[..info.len() - 1]).is_err());
        assert!(registers(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        assert!(Object::parse(b"no ELF").is_err());
        assert!(Object::parse(&[]).is_err());
    }
}
