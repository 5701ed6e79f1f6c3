//! Processor time of processes, from `/proc/PID/stat`: user and system time, in ticks of 10 ms.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::Context as _;

/// Microseconds per tick. `USER_HZ` is 100 on every architecture that Fairlead is built for.
const TICK_US: u64 = 10_000;

/// A process to watch, written `ROLE=PID`.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    role: String,
    pid: u32,
}

impl Watched {
    pub(crate) fn role(&self) -> &str {
        &self.role
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl FromStr for Watched {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (role, pid) = text.split_once('=').ok_or("expected ROLE=PID")?;
        Ok(Self {
            role: role.to_owned(),
            pid: pid.parse().map_err(|_| "PID is a number")?,
        })
    }
}

pub(crate) type Micros = BTreeMap<String, u64>;

/// Processor time of each process since its start, and of this process as `load`.
pub(crate) fn read(watched: &[Watched]) -> anyhow::Result<Micros> {
    let mut times = BTreeMap::from([("load".to_owned(), of("self")?)]);
    for Watched { role, pid } in watched {
        times.insert(
            role.clone(),
            of(&pid.to_string()).with_context(|| format!("processor time of {role}"))?,
        );
    }
    Ok(times)
}

pub(crate) fn since(before: &Micros, after: &Micros) -> Micros {
    after
        .iter()
        .map(|(role, now)| (role.clone(), now - before.get(role).unwrap_or(&0).min(now)))
        .collect()
}

/// Processor time since the process started, in microseconds.
pub(crate) fn of(pid: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    ticks(&stat)
        .map(|ticks| ticks * TICK_US)
        .with_context(|| format!("{path} is not as proc(5) has it"))
}

/// Sum of fields 14 and 15, utime and stime. Field 2 is the command's name in parentheses and may contain
/// blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_a_name_with_blanks_and_parentheses() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 31 11 0 0 20 0 3 0 100 1 2 3";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("42 (short) S 1"), None);
    }

    #[test]
    fn own_processor_time_can_be_read() {
        let times =
            read(&[Watched::from_str(&format!("me={}", std::process::id())).unwrap()]).unwrap();
        assert_eq!(times.keys().collect::<Vec<_>>(), ["load", "me"]);
    }
}
