//! `fairlead audit verify`: checks the hash chain of a log on this machine.

use std::path::Path;

use fairlead_api::{Code, Failure};
use fairlead_audit::verify;

use crate::output;

/// Checks the log.
///
/// # Errors
/// `FL-5108` with each defect, `FL-4119` if the log cannot be read.
pub(crate) fn run(dir: &Path) -> Result<(), Failure> {
    let place = dir.display();
    let checked = verify(dir)
        .map_err(|error| Failure::because(Code::CannotRead, format_args!("{place}: {error}")))?;
    let (lines, segments) = (checked.lines, checked.segments);
    if checked.findings.is_empty() {
        let last = checked.last.map_or_else(String::new, |(seq, hash)| {
            format!("the last one is {seq} with hash {hash}\n")
        });
        return Ok(output::print(&format!(
            "{lines} events in {segments} files, none removed or changed\n{last}"
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
