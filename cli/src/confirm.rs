//! Confirmation of dangerous commands: a prompt on a terminal; elsewhere `--yes` is required.

use std::io::{self, BufRead, IsTerminal, Write};

use fairlead_api::{Code, Failure};
use fairlead_store::DumpError;

/// Prompts for confirmation, unless `yes` is set.
///
/// # Errors
/// `FL-4118` without confirmation.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    // A prompt would block a unit test.
    if cfg!(test) || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let detail = format_args!("{question} There is no terminal for a prompt");
        return Err(Failure::because(Code::NotConfirmed, detail));
    }
    prompt(question, &mut io::stdin().lock(), &mut io::stderr())
}

fn prompt(question: &str, from: &mut impl BufRead, to: &mut impl Write) -> Result<(), Failure> {
    // A prompt that cannot be shown counts as declined.
    let asked = write!(to, "{question} [y/N] ").and_then(|()| to.flush());
    let mut answer = String::new();
    let read = asked.and_then(|()| from.read_line(&mut answer));
    let said_yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    match read {
        Ok(_) if said_yes => Ok(()),
        _ => Err(Code::NotConfirmed.into()),
    }
}

/// Runs an action that may overwrite data, and repeats it after confirmation. The argument of `act` permits overwriting.
///
/// # Errors
/// Errors of `act`; `FL-4118` without confirmation.
pub(crate) fn confirm_overwrite<T>(
    yes: bool,
    mut act: impl FnMut(bool) -> Result<T, DumpError>,
) -> Result<T, Failure> {
    match act(yes) {
        Err(error @ DumpError::NotEmpty(_)) if !yes => {
            let cause = Failure::from(error).cause;
            let question = format!("{cause}; all of it would be deleted. Continue?");
            confirm(false, &question)?;
            Ok(act(true)?)
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_confirms() {
        for (said, is) in [
            ("y\n", true),
            (" YES \n", true),
            ("yes", true),
            ("\n", false),
            ("", false),
            ("no\n", false),
            ("yesterday\n", false),
        ] {
            let mut asked = Vec::new();
            let answer = prompt("Continue?", &mut said.as_bytes(), &mut asked);
            assert_eq!(answer.is_ok(), is, "{said:?}");
            assert_eq!(asked, b"Continue? [y/N] ");
        }
    }

    #[test]
    fn missing_data_needs_no_confirmation() {
        let mut tries = Vec::new();
        let done = confirm_overwrite(false, |may| {
            tries.push(may);
            Ok(())
        });
        assert!(done.is_ok());
        let failed = confirm_overwrite(true, |may| {
            tries.push(may);
            Err::<(), _>(DumpError::NotEmpty("a file is there".to_owned()))
        });
        assert_eq!(failed.unwrap_err().code, Code::InUse);
        assert_eq!(tries, [false, true]);
    }
}
