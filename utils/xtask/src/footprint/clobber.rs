//! Looks in machine code for registers that are read behind a call although the called function may
//! have changed them.
//!
//! ptxas 13.0.88 did so once, in the device library: it took the register of an argument for preserved,
//! and a kernel read another value than it had written. The PTX was right, and nothing but a run on a
//! GPU showed it. So every object is disassembled and each call followed until the code branches for
//! good: what is read there must have been written behind the call, be the call's result, or be a
//! register that functions preserve.
//!
//! It is no disassembler: an instruction's first register is taken for its result, as wide as its name
//! says, and all others for what it reads.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Registers there are.
const REGISTERS: usize = 256;
/// Those in which a function returns its result.
const RESULT: std::ops::Range<usize> = 4..8;

/// NVIDIA's disassembler.
pub(crate) struct Nvdisasm(pub(crate) PathBuf);

impl Nvdisasm {
    /// The lines of an object that read what a call may have changed.
    pub(super) fn check(&self, object: &Path) -> Result<Vec<String>> {
        let output = Command::new(&self.0)
            .arg("-c")
            .arg(object)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.0.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{} does not read {}: {}",
            self.0.display(),
            object.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let (calls, found) = stale_reads(&printed);
        ensure!(
            calls > 0,
            "no call was found in {}: the check has nothing to read",
            object.display()
        );
        Ok(found)
    }
}

/// Whether functions give a register back as they found it.
fn is_preserved(register: usize) -> bool {
    match register {
        1 | 2 => true,
        0..16 => false,
        16..32 => true,
        _ => register % 8 >= 4,
    }
}

/// How many calls there are, and what is read behind them that they may have changed.
fn stale_reads(disassembly: &str) -> (usize, Vec<String>) {
    let (mut calls, mut found) = (0, Vec::new());
    let mut function = "";
    let mut state: Option<State> = None;
    for line in disassembly.lines() {
        let line = line.trim();
        if let Some((_, rest)) = line.split_once("//--------------------- .text.") {
            function = rest.split(' ').next().unwrap_or("");
            state = None;
            continue;
        }
        let code = without_comments(line);
        let code = code.trim();
        if code.ends_with(':') {
            // Others jump here, and may come with other registers; but where a call comes back to.
            if state.as_ref().is_some_and(|state| !state.just_called) {
                state = None;
            }
            continue;
        }
        let Some(instruction) = Instruction::parse(code) else { continue };
        if instruction.name.starts_with("CALL") {
            calls += 1;
            let callee = instruction.operands;
            // The assembler's own helpers have a convention of their own.
            state = (!callee.contains("__cuda")).then(|| State::behind(callee));
            continue;
        }
        let Some(current) = &mut state else { continue };
        current.just_called = false;
        let stale: Vec<usize> =
            instruction.reads().into_iter().filter(|register| current.stale[*register]).collect();
        if let Some(register) = stale.first() {
            let callee = &current.callee;
            found.push(format!("{function} reads R{register} behind the call of {callee}: {code}"));
        }
        for register in stale.into_iter().chain(instruction.writes()) {
            current.stale[register] = false;
        }
        if instruction.ends_path() {
            state = None;
        }
    }
    (calls, found)
}

/// What is known behind a call.
struct State {
    callee: String,
    stale: Vec<bool>,
    just_called: bool,
}

impl State {
    fn behind(callee: &str) -> Self {
        let stale = |register| !is_preserved(register) && !RESULT.contains(&register);
        let callee = callee.trim_matches(['`', '(', ')', ' ']).to_owned();
        Self { callee, stale: (0..REGISTERS).map(stale).collect(), just_called: true }
    }
}

struct Instruction<'a> {
    is_conditional: bool,
    name: &'a str,
    operands: &'a str,
}

impl<'a> Instruction<'a> {
    fn parse(code: &'a str) -> Option<Self> {
        let code = code.strip_suffix(';')?.trim();
        let (is_conditional, code) = match code.strip_prefix('@') {
            Some(rest) => (true, rest.split_once(' ')?.1.trim_start()),
            None => (false, code),
        };
        let (name, operands) = code.split_once(' ').unwrap_or((code, ""));
        let known = name.starts_with(|c: char| c.is_ascii_uppercase());
        known.then_some(Self { is_conditional, name, operands: operands.trim() })
    }

    fn is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.starts_with(name))
    }

    /// Whether what follows in the text is not what runs next.
    fn ends_path(&self) -> bool {
        !self.is_conditional && self.is(&["BRA", "BRX", "EXIT", "RET", "JMP"])
    }

    /// The operand that is written, if it is a register: the first behind predicates.
    fn result(&self) -> Option<(usize, &'a str)> {
        if self.is(&[
            "ST", "RED", "ISETP", "FSETP", "R2UR", "BAR", "WARPSYNC", "BSSY", "BSYNC", "CCTL",
        ]) {
            return None;
        }
        let is_predicate = |operand: &&str| {
            let name = operand.trim_start_matches('!').trim_start_matches('U');
            name.strip_prefix('P').is_some_and(|rest| rest == "T" || rest.parse::<u8>().is_ok())
        };
        let mut operands = self.operands.split(',').map(str::trim).skip_while(is_predicate);
        let first = operands.next()?;
        Some((registers(first).first().copied().filter(|_| first.starts_with('R'))?, first))
    }

    fn writes(&self) -> Vec<usize> {
        let Some((first, _)) = self.result() else { return Vec::new() };
        let width = match () {
            () if self.name.contains(".128") => 4,
            () if self.is(&["SHF"]) => 1,
            () if self.name.contains(".64") || self.name.contains("WIDE") => 2,
            () if self.is(&["CS2R"]) && !self.name.contains(".32") => 2,
            () => 1,
        };
        (first..first + width).filter(|register| *register < REGISTERS).collect()
    }

    fn reads(&self) -> Vec<usize> {
        // It chooses bytes, often of a register whose others nobody wants.
        if self.is(&["PRMT"]) {
            return Vec::new();
        }
        let sources = match self.result() {
            Some((_, operand)) => {
                let at = self.operands.find(operand).map_or(0, |at| at + operand.len());
                &self.operands[at..]
            }
            None => self.operands,
        };
        let mut read = registers(sources);
        // Wide stores name the first register of what they store, if it is not zero.
        let more = match () {
            () if !self.is(&["ST"]) => 0,
            () if self.name.contains(".128") => 3,
            () if self.name.contains(".64") => 1,
            () => 0,
        };
        let stored = self.operands.rsplit(',').next().and_then(|last| registers(last).pop());
        read.extend(stored.into_iter().flat_map(|first| first + 1..=first + more));
        read.retain(|register| *register < REGISTERS);
        read
    }
}

/// The registers that operands name: `R8`, `R8.64` for two.
fn registers(operands: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in operands.split(|c: char| !is_part(c) && c != '.') {
        let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
        let number = name.strip_prefix('R').and_then(|number| number.parse::<usize>().ok());
        if let Some(number) = number {
            found.extend(number..number + if suffix.starts_with("64") { 2 } else { 1 });
        }
    }
    found
}

fn without_comments(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once("/*") {
        code.push_str(before);
        rest = behind.split_once("*/").map_or("", |(_, rest)| rest);
    }
    code + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        stale_reads(&format!("//--------------------- .text.f ----\nf:\n{code}")).1
    }

    /// What ptxas 13.0.88 made of a counter that is an argument, and is used behind the call.
    #[test]
    fn an_argument_that_is_used_behind_a_call_is_found() {
        let code = "/*0000*/ IMAD.MOV.U32 R8, RZ, RZ, R6 ;\n/*0010*/ MOV R17, R7 ;\n\
            CALL.ABS.NOINC `(small_message) ;\n.L_x_23:\nLDL.64 R4, [R1+0x60] ;\n\
            ISETP.NE.U32.AND P0, PT, R4, 0x1, PT ;\n@P0 BRA `(.L_x_573) ;\n\
            SHF.R.U64 R3, R8, 0x2, R17 ;\nRET.ABS.NODEC R20 0x0 ;\n";
        let lines = found(code);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("reads R8 behind the call of small_message"), "{lines:?}");
    }

    #[test]
    fn results_preserved_and_written_registers_may_be_read() {
        let code = "CALL.ABS.NOINC `(g) ;\n.L_x_1:\nIADD3 R9, P0, R4, R16, RZ ;\n\
            CS2R R10, SR_GLOBALTIMERLO ;\nIMAD.X R11, R11, 0x1, ~R17, P0 ;\n\
            STL.64 [R1+0x8], R10 ;\nST.E.64 desc[UR4][R38.64+0x8], RZ ;\nSHFL.IDX PT, R0, R4, RZ, 0x1f ;\n\
            LD.E.64 R12, desc[UR4][R36.64] ;\nIADD3 R3, R12, R13, R39 ;\nPRMT R3, R5, 0x7632, R3 ;\n\
            BRA `(.L_x_9) ;\n.L_x_9:\nMOV R3, R32 ;\nRET.ABS.NODEC R20 0x0 ;\n";
        assert!(found(code).is_empty(), "{:?}", found(code));
        let behind_another = "CALL.REL.NOINC `(__cuda_sm20_rem_u64) ;\n.L_x_1:\nMOV R3, R32 ;\n";
        assert!(found(behind_another).is_empty());
        assert_eq!(found("CALL.ABS.NOINC `(g) ;\n.L_x_1:\nMOV R3, R32 ;\n").len(), 1);
        let wide = "CALL.ABS.NOINC `(g) ;\n.L_x_1:\nST.E.64 desc[UR4][R16.64], R31 ;\n";
        assert_eq!(found(wide).len(), 1);
    }
}
