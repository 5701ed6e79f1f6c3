//! End of a command: prints a failure on stderr (cause, next step, code), and selects the exit code.

use std::process::ExitCode;

use clap::error::ErrorKind;
use fairlead_api::{Code, Failure};

/// Exit code of a failure, as documented in `--help`.
pub(crate) fn exit_code(code: Code) -> u8 {
    use Code as C;
    match code {
        C::BadConfig
        | C::BadJoinString
        | C::BadKubeconfig
        | C::CannotRead
        | C::Invalid
        | C::Usage
        | C::ArchiveRefused
        | C::BadBundle
        | C::BadBundleFile
        | C::ChartNotFetched
        | C::DependencyCycle => 2,
        C::NotLoggedIn => 3,
        C::NotFound
        | C::NoSuchCluster
        | C::NoSuchRoute
        | C::NoSuchArtifact
        | C::NoSuchGeneration => 4,
        C::HubUnreachable | C::NotReady => 5,
        C::Conflict
        | C::InUse
        | C::ChangedMeanwhile
        | C::Protected
        | C::RemovalNotConfirmed
        | C::BundleDeleting => 6,
        other => match other.number() {
            1100..1300 => 3,
            1400..1600 | 3100..3200 => 5,
            _ => 1,
        },
    }
}

/// A failure for people: cause, next step and code.
pub(crate) fn failure_text(failure: &Failure) -> String {
    format!(
        "error: {}\nnext:  {}\ncode:  {}\n",
        failure.cause,
        failure.next_step(),
        failure.code
    )
}

/// Prints a failure and returns the exit code.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure_text(&failure));
            ExitCode::from(exit_code(failure.code))
        }
    }
}

/// Prints a command-line error, or help, which goes to stdout and succeeds.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A failure to print has no further handling.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        eprintln!(
            "\nerror: a command is missing\nnext:  Choose one of those above.\ncode:  {}",
            Code::Usage
        );
    } else {
        let words = std::env::args_os();
        let words = words.map(|word| word.to_string_lossy().into_owned());
        eprint!("{}", usage_text(&error.to_string(), words));
    }
    ExitCode::from(exit_code(Code::Usage))
}

/// clap's error text with one next step: clap's tip, else the help of the command.
pub(crate) fn usage_text(text: &str, words: impl IntoIterator<Item = String>) -> String {
    let (mut lines, mut next, mut usage) = (Vec::new(), None, None);
    for line in text.lines() {
        let bare = line.trim();
        if let Some(tip) = bare.strip_prefix("tip: ") {
            // clap's tip about values does not help with a mistyped flag.
            if !tip.starts_with("to pass ") {
                next.get_or_insert_with(|| sentence(tip));
            }
        } else if let Some(line) = bare.strip_prefix("Usage: ") {
            usage = Some(line);
        } else if !bare.is_empty() && !bare.starts_with("For more information") {
            lines.push(line);
        }
    }
    let next = next.unwrap_or_else(|| help(words));
    let usage = usage.map_or(String::new(), |usage| format!("usage: {usage}\n"));
    format!(
        "{}\n{usage}next:  {next}\ncode:  {}\n",
        lines.join("\n"),
        Code::Usage
    )
}

fn sentence(tip: &str) -> String {
    let mut characters = tip.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    let rest = characters.as_str().trim_end_matches('.');
    first.into_iter().chain(rest.chars()).chain(['.']).collect()
}

/// Next step with `--help` of the innermost command in these words.
fn help(words: impl IntoIterator<Item = String>) -> String {
    let root = crate::args::command();
    let (mut command, mut path) = (&root, "fairlead".to_owned());
    for word in words.into_iter().skip(1) {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner;
            path = format!("{path} {}", inner.get_name());
        }
    }
    format!("Run `{path} --help`.")
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

    fn told(words: &[&str]) -> String {
        let error = crate::args::command().try_get_matches_from(words).err();
        usage_text(
            &error.unwrap().to_string(),
            words.iter().map(ToString::to_string),
        )
    }

    #[test]
    fn command_line_error_has_one_next_step() {
        let unknown = told(&["fairlead", "cluster", "list", "--colour"]);
        assert_eq!(
            unknown,
            "error: unexpected argument '--colour' found\nusage: fairlead cluster list [OPTIONS]\n\
             next:  Run `fairlead cluster list --help`.\ncode:  FL-4117\n"
        );
        let similar = told(&["fairlead", "cluster", "list", "--tenat", "t"]);
        assert!(
            similar.contains("next:  A similar argument exists: '--tenant'.\n"),
            "{similar}"
        );
        let missing = told(&["fairlead", "cluster", "get"]);
        assert!(missing.contains("<NAME|ID>"), "{missing}");
        let value = told(&["fairlead", "token", "create", "x", "--role", "boss"]);
        assert!(
            value.contains("next:  Run `fairlead token create --help`.\n"),
            "{value}"
        );
        let flag = told(&["fairlead", "cluster", "create", "x", "--unheard-of"]);
        assert!(
            flag.contains("next:  Run `fairlead cluster create --help`.\n"),
            "{flag}"
        );
        for text in [unknown, similar, missing, value, flag] {
            assert_eq!(text.matches("\nnext: ").count(), 1, "{text}");
            assert!(
                !text.contains("tip:") && !text.contains("For more"),
                "{text}"
            );
        }
    }
}
