//! Addresses of the locked instructions of a program for x86-64, from its disassembly.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

/// Kind of a locked instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atomic {
    /// An exchange with memory.
    Swap,
    /// Any other.
    Other,
}

/// Locked instructions by their address.
#[derive(Debug, Default)]
pub(super) struct Atomics(HashMap<u64, Atomic>);

impl Atomics {
    /// Disassembles the program. A large one takes half a minute.
    ///
    /// # Errors
    /// `objdump` (package binutils) does not work.
    pub(super) fn of(program: &Path) -> anyhow::Result<Self> {
        let mut objdump = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn"])
            .arg(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting objdump (package binutils)")?;
        let output = objdump.stdout.take().context("objdump has no output")?;
        let found = Self::parse(BufReader::new(output));
        let status = objdump.wait()?;
        ensure!(status.success(), "objdump ended: {status}");
        let found = found?;
        ensure!(
            !found.0.is_empty(),
            "{} has no locked instruction: not a program for x86-64",
            program.display()
        );
        Ok(found)
    }

    /// Parses lines of `ADDRESS:<TAB>INSTRUCTION`.
    pub(super) fn parse(disassembly: impl BufRead) -> anyhow::Result<Self> {
        let mut found = HashMap::new();
        for line in disassembly.lines() {
            let line = line?;
            let Some((address, instruction)) = line.split_once(":\t") else {
                continue;
            };
            let Some(atomic) = Atomic::of(instruction) else {
                continue;
            };
            found.insert(u64::from_str_radix(address.trim(), 16)?, atomic);
        }
        Ok(Self(found))
    }

    pub(super) fn at(&self, address: u64) -> Option<Atomic> {
        self.0.get(&address).copied()
    }
}

impl Atomic {
    fn of(instruction: &str) -> Option<Self> {
        // An exchange with memory locks without a prefix; between registers it locks nothing.
        if instruction.starts_with("xchg") && instruction.contains('(') {
            return Some(Self::Swap);
        }
        instruction.starts_with("lock ").then_some(Self::Other)
    }
}
