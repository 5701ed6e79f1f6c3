//! A profile of callgrind, as `--dump-instr=yes --dump-line=no --compress-pos=no --compress-strings=no` writes it: for each function the
//! address of each instruction with its costs, and for each call the number of calls.

use std::io::BufRead;

use anyhow::{Context as _, bail, ensure};

use super::atomics::{Atomic, Atomics};

/// Functions of the C library that allocate.
const ALLOCATORS: [&str; 6] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
];
/// The function that reads the clock. Under valgrind each read is a system call; elsewhere it is none.
const CLOCK: &str = "clock_gettime";
/// The function by which tokio polls a task; a vtable has it, so no compiler inlines it.
const TASK_POLL: &str = "tokio::runtime::task::raw::poll";

/// What one process did between two commands of callgrind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) instructions: u64,
    pub(super) allocations: u64,
    pub(super) system_calls: u64,
    pub(super) clock_reads: u64,
    pub(super) task_polls: u64,
    /// Atomic exchanges of the program itself. The release of a mutex is one.
    pub(super) swaps: u64,
    /// Locked instructions of the program itself: exchanges, reference counts, flags.
    pub(super) locked: u64,
}

impl Profile {
    /// # Errors
    /// The text is no such profile, or is cut.
    pub(super) fn read(
        text: impl BufRead,
        program: &str,
        atomics: &Atomics,
    ) -> anyhow::Result<Self> {
        let mut profile = Self::default();
        let (mut in_program, mut callee, mut after_call) = (false, String::new(), false);
        let (mut has_events, mut has_totals) = (false, false);
        for line in text.lines() {
            let line = line?;
            if let Some((key, value)) = line.split_once('=') {
                match key {
                    "ob" => in_program = value == program,
                    "cfn" => callee = value.to_owned(),
                    "calls" => {
                        let count = value.split(' ').next().unwrap_or_default();
                        profile.call(&callee, count.parse().context(line.clone())?);
                        after_call = true;
                    }
                    _ => {}
                }
            } else if let Some(events) = line.strip_prefix("events: ") {
                has_events = true;
                ensure!(
                    events.starts_with("Ir sysCount"),
                    "callgrind counted `{events}`; instructions and system calls are needed"
                );
            } else if let Some(totals) = line.strip_prefix("totals: ") {
                has_totals = true;
                let mut totals = totals.split(' ').map(str::parse);
                profile.instructions = totals.next().context("no total")??;
                profile.system_calls = totals.next().unwrap_or(Ok(0))?;
            } else if let Some(cost) = line.strip_prefix("0x") {
                // The line after a call has the costs of the callee.
                if !std::mem::take(&mut after_call) && in_program {
                    profile.cost(cost, atomics).with_context(|| line.clone())?;
                }
            }
        }
        profile.system_calls = profile.system_calls.saturating_sub(profile.clock_reads);
        if !(has_events && has_totals) {
            bail!("the profile has no events or no totals");
        }
        Ok(profile)
    }

    fn call(&mut self, callee: &str, count: u64) {
        if ALLOCATORS.contains(&callee) {
            self.allocations += count;
        } else if callee.split('@').next() == Some(CLOCK) {
            self.clock_reads += count;
        } else if callee.starts_with(TASK_POLL) {
            self.task_polls += count;
        }
    }

    fn cost(&mut self, line: &str, atomics: &Atomics) -> anyhow::Result<()> {
        let mut fields = line.split(' ');
        let address = u64::from_str_radix(fields.next().unwrap_or_default(), 16)?;
        let Some(atomic) = atomics.at(address) else {
            return Ok(());
        };
        let count: u64 = fields.next().context("an address without costs")?.parse()?;
        self.locked += count;
        if atomic == Atomic::Swap {
            self.swaps += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
version: 1
positions: instr
events: Ir sysCount sysTime

ob=/p/fairlead
fl=???
fn=work
0x10 7
0x14 5
cob=/lib/libc.so.6
cfn=malloc
calls=3 0x99
0x14 300
0x18 2
cfn=clock_gettime@@GLIBC_2.17
calls=2 0x98
0x14 20
cfn=tokio::runtime::task::raw::poll
calls=4 0x20
0x1c 40

ob=/lib/libc.so.6
fn=malloc
0x10 9

totals: 1000 11 12000
";

    fn atomics() -> Atomics {
        Atomics::parse(
            "  10:\tlock cmpxchg %cl,(%rax)\n  14:\txchg   %ecx,(%rax)\n  18:\txchg   %ax,%ax\n"
                .as_bytes(),
        )
        .unwrap()
    }

    #[test]
    fn counts_are_those_of_the_program() {
        let profile = Profile::read(PROFILE.as_bytes(), "/p/fairlead", &atomics()).unwrap();
        assert_eq!(
            profile,
            Profile {
                instructions: 1000,
                allocations: 3,
                system_calls: 9,
                clock_reads: 2,
                task_polls: 4,
                swaps: 5,
                locked: 12,
            }
        );
    }

    #[test]
    fn cut_profile_is_an_error() {
        let cut = PROFILE.split("totals").next().unwrap();
        assert!(Profile::read(cut.as_bytes(), "/p/fairlead", &atomics()).is_err());
        let other = PROFILE.replace("Ir sysCount sysTime", "Ir");
        assert!(Profile::read(other.as_bytes(), "/p/fairlead", &atomics()).is_err());
    }
}
