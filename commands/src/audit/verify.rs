//! `fairlead audit verify`: checks the hash chain of a log on this machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure};
use fairlead_audit::{ChainHeads, chain_heads, verify_with};

use crate::output;

/// Checks the log.
///
/// # Errors
/// `FL-5108` with each defect, `FL-4119` if the log cannot be read.
pub(crate) fn run(dir: &Path, heads: &[PathBuf]) -> Result<(), Failure> {
    let place = dir.display();
    let noted = read_heads(heads)?;
    let checked = verify_with(dir, &noted).map_err(|error| unreadable(dir, &error))?;
    let (lines, segments) = (checked.lines, checked.segments);
    if checked.findings.is_empty() {
        let last = checked.last.map_or_else(String::new, |(seq, hash)| {
            format!("the last one is {seq} with hash {hash}\n")
        });
        let compared = match noted.len() {
            0 => String::new(),
            number => format!("{number} earlier hashes were compared\n"),
        };
        return Ok(output::print(&format!(
            "{lines} events in {segments} files, none removed or changed\n{last}{compared}"
        ))?);
    }
    for finding in &checked.findings {
        output::print(&format!("{finding}\n"))?;
    }
    let number = checked.findings.len();
    Err(Failure::because(
        Code::AuditBroken,
        format_args!("{place}: {number} defects in {lines} events"),
    ))
}

/// Reads the hashes that were noted at other places. A file without one is a mistake.
fn read_heads(files: &[PathBuf]) -> Result<ChainHeads, Failure> {
    let mut all = ChainHeads::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
        let heads = chain_heads(&text);
        if heads.is_empty() {
            let place = file.display();
            let cause = format_args!("{place}: no line with number and hash of an event");
            return Err(Failure::because(Code::CannotRead, cause));
        }
        all.extend(heads);
    }
    Ok(all)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let place = path.display();
    Failure::because(Code::CannotRead, format_args!("{place}: {error}"))
}
