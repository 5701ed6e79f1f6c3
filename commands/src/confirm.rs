//! Confirmation of dangerous commands: a prompt on a terminal; elsewhere `--yes` is required.

use std::io::{self, BufRead, IsTerminal, Write};

use fairlead_api::{Code, Failure};

use crate::output::streams;

/// Prompts for confirmation, unless `yes` is set.
///
/// # Errors
/// `FL-4118` without confirmation.
pub fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    // A prompt would block a test.
    if streams::are_captured() || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
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
}
