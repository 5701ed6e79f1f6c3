//! Dangerous commands ask on a terminal; elsewhere nobody can answer, so `--yes` must have been given.

use std::io::{self, BufRead, IsTerminal};

use fairlead_api::{Code, Failure};

/// # Errors
/// `FL-4118` if nobody said yes.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let detail = format_args!("{question} Nobody can be asked here");
        return Err(Failure::because(Code::NotConfirmed, detail));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let said_yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    match read {
        Ok(_) if said_yes => Ok(()),
        _ => Err(Code::NotConfirmed.into()),
    }
}
