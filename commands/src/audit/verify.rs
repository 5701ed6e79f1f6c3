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
        output::note(&format!(
            "{lines} events in {segments} files, none removed or changed"
        ));
        if let Some((seq, hash)) = checked.last {
            output::note(&format!("the last one is {seq} with hash {hash}"));
        }
        return Ok(());
    }
    for finding in &checked.findings {
        output::note(&finding.to_string());
    }
    let number = checked.findings.len();
    Err(Failure::because(
        Code::AuditBroken,
        format_args!("{place}: {number} defects in {lines} events"),
    ))
}
