//! How the command ends: a failure in one shape on stderr (cause, next step, code), and an exit code by its kind.

use std::process::ExitCode;

use fairlead_api::{Code, Failure};

/// The exit code for each kind of failure; documented in `--help`.
fn exit_code(code: Code) -> u8 {
    use Code as C;
    match code {
        C::BadConfig
        | C::BadJoinString
        | C::BadKubeconfig
        | C::CannotRead
        | C::Invalid
        | C::Usage => 2,
        C::NotLoggedIn => 3,
        C::NotFound | C::NoSuchCluster | C::NoSuchRoute => 4,
        C::HubUnreachable | C::NotReady => 5,
        C::Conflict | C::InUse | C::ChangedMeanwhile | C::Protected => 6,
        other => match other.number() {
            1100..1300 => 3,
            1400..1600 | 3100..3200 => 5,
            _ => 1,
        },
    }
}

/// Ends the command.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!(
                "error: {}\nnext:  {}\ncode:  {}",
                failure.cause,
                failure.next_step(),
                failure.code
            );
            ExitCode::from(exit_code(failure.code))
        }
    }
}

/// What clap has to say: help goes to stdout and is no failure.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to do if even that cannot be printed.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "\nnext:  {}\ncode:  {}",
        Code::Usage.next_step(),
        Code::Usage
    );
    ExitCode::from(exit_code(Code::Usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_exit_code_that_help_documents() {
        for &code in Code::ALL {
            assert!((1..=6).contains(&exit_code(code)), "{code}");
        }
        assert_eq!(exit_code(Code::TokenExpired), 3);
        assert_eq!(exit_code(Code::Lost), 5);
    }
}
