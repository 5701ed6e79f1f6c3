//! Dangerous commands ask on a terminal; elsewhere nobody can answer, so `--yes` must have been given.

use std::io::{self, BufRead, IsTerminal, Write};

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
    ask(question, &mut io::stdin().lock(), &mut io::stderr())
}

fn ask(question: &str, from: &mut impl BufRead, to: &mut impl Write) -> Result<(), Failure> {
    // Whoever cannot read the question says no to it.
    let asked = write!(to, "{question} [y/N] ").and_then(|()| to.flush());
    let mut answer = String::new();
    let read = asked.and_then(|()| from.read_line(&mut answer));
    let said_yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    match read {
        Ok(_) if said_yes => Ok(()),
        _ => Err(Code::NotConfirmed.into()),
    }
}

/// Does what writes over something only when somebody wants that: `act` is told whether it may, and says `FL-4111` where
/// something is there.
///
/// # Errors
/// Those of `act`; `FL-4118` if nobody said yes.
pub(crate) fn over_what_is_there<T>(
    yes: bool,
    mut act: impl FnMut(bool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match act(yes) {
        Err(failure) if failure.code == Code::InUse && !yes => {
            let question = format!("{}; all of it would be gone. Go on?", failure.cause);
            confirm(false, &question)?;
            act(true)
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_a_yes() {
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
            let answer = ask("Go on?", &mut said.as_bytes(), &mut asked);
            assert_eq!(answer.is_ok(), is, "{said:?}");
            assert_eq!(asked, b"Go on? [y/N] ");
        }
    }

    #[test]
    fn what_is_not_there_is_nothing_to_ask_about() {
        let mut tries = Vec::new();
        let done = over_what_is_there(false, |may| {
            tries.push(may);
            Ok(())
        });
        assert!(done.is_ok());
        let failed = over_what_is_there(true, |may| {
            tries.push(may);
            Err::<(), _>(Failure::new(Code::InUse))
        });
        assert_eq!(failed.unwrap_err().code, Code::InUse);
        assert_eq!(tries, [false, true]);
    }
}
