//! `fairlead help --man`: manual pages of all commands in roff, as man(7) defines it.

use std::{fmt::Write as _, path::Path};

use fairlead_api::{Code, Failure};
use fairlead_client::Environment;
use time::{Date, OffsetDateTime};

use super::page::{HelpEntry, HelpPage};
use crate::build_info::VERSION;

/// Variable with the date of reproducible builds, in seconds since 1970 (reproducible-builds.org).
const DATE_VARIABLE: &str = "SOURCE_DATE_EPOCH";
/// Flags of every command.
const COMMON_OPTIONS: [(&str, &str); 2] = [
    ("-h, --help", "Print help"),
    ("-V, --version", "Print version"),
];
/// Commands that also read settings from the environment and a file.
const LONG_RUNNING: [&str; 4] = [
    "fairlead dev",
    "fairlead server",
    "fairlead agent",
    "fairlead runner",
];

/// Writes one file for each page into a folder, like `fairlead-cluster-list.1`.
pub(super) fn write(
    pages: &[HelpPage],
    folder: &Path,
    environment: &Environment,
) -> Result<(), Failure> {
    let date = date(environment)?;
    let failed = |path: &Path, error: std::io::Error| {
        Failure::because(
            Code::CannotWrite,
            format_args!("{}: {error}", path.display()),
        )
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for page in pages {
        let file = folder.join(format!("{}.1", name(&page.path)));
        std::fs::write(&file, roff(page, date)).map_err(|error| failed(&file, error))?;
    }
    Ok(())
}

/// Date in the footer: the one of the variable, else today.
fn date(environment: &Environment) -> Result<Date, Failure> {
    let Some(seconds) = environment.get(DATE_VARIABLE) else {
        return Ok(OffsetDateTime::now_utc().date());
    };
    let date = seconds.parse().ok();
    let date = date.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let invalid = || {
        let cause = format!("{DATE_VARIABLE} must be seconds since 1970");
        Failure::because(Code::BadConfig, cause)
    };
    Ok(date.ok_or_else(invalid)?.date())
}

/// Name of a page: `fairlead-cluster-list`.
fn name(path: &str) -> String {
    path.replace(' ', "-")
}

fn roff(page: &HelpPage, date: Date) -> String {
    let title = escaped(&name(&page.path).to_uppercase());
    // Writing into a text cannot fail.
    let mut out = String::new();
    let _ = writeln!(
        out,
        ".TH \"{title}\" \"1\" \"{date}\" \"Fairlead {VERSION}\" \"Fairlead\""
    );
    let about = page.about.lines().collect::<Vec<_>>().join(" ");
    let about = escaped(&about);
    let _ = write!(
        out,
        ".SH NAME\n{} \\- {about}\n.SH SYNOPSIS\n",
        escaped(&name(&page.path))
    );
    for (index, line) in page.usage.lines().enumerate() {
        let line = line.trim();
        let rest = line.strip_prefix(&page.path).unwrap_or(line);
        let blank = if index == 0 { "" } else { ".br\n" };
        let _ = writeln!(
            out,
            "{blank}\\fB{}\\fR{}",
            escaped(&page.path),
            escaped(rest)
        );
    }
    let _ = writeln!(out, ".SH DESCRIPTION\n{about}.");
    for alias in &page.aliases {
        let _ = writeln!(out, ".PP\nAlias: \\fB{}\\fR.", escaped(alias));
    }
    for (heading, entries) in page.sections() {
        let _ = writeln!(out, ".SH {}", heading.to_uppercase());
        for entry in entries {
            write_entry(&mut out, page, heading, entry);
        }
        if heading == "Options" {
            write_common_options(&mut out);
        }
    }
    if page.sections().all(|(heading, _)| heading != "Options") {
        out.push_str(".SH OPTIONS\n");
        write_common_options(&mut out);
    }
    if LONG_RUNNING.contains(&page.path.as_str()) {
        write_settings(&mut out, page);
    }
    write_epilogue(&mut out, &page.epilogue);
    write_see_also(&mut out, page);
    out
}

fn write_entry(out: &mut String, page: &HelpPage, heading: &str, entry: &HelpEntry) {
    let tag = match heading {
        "Commands" => reference(&format!("{} {}", page.path, entry.spec)),
        _ => spec(&entry.spec),
    };
    let help = entry.help.lines().map(str::trim).collect::<Vec<_>>();
    let help = match help.join(" ") {
        help if help.is_empty() => "\\&".to_owned(),
        help => escaped(&help),
    };
    let _ = writeln!(out, ".TP\n{tag}\n{help}");
}

fn write_common_options(out: &mut String) {
    for (flag, help) in COMMON_OPTIONS {
        let _ = writeln!(out, ".TP\n{}\n{help}", spec(flag));
    }
}

/// Sources of settings beside the flags.
fn write_settings(out: &mut String, page: &HelpPage) {
    let table = page.path.trim_start_matches("fairlead ");
    let text = format!(
        "Each option with a value is also a variable, like FAIRLEAD_LOG for --log, and a key of the table [{table}] in the \
         TOML file of --config, like log = \"debug\". An option takes precedence over the variable, and the variable over the file."
    );
    let _ = writeln!(out, ".SH SETTINGS\n{}", escaped(&text));
}

/// Examples and notes: a heading ends with a colon, and its indented lines stay as they are.
fn write_epilogue(out: &mut String, epilogue: &str) {
    let mut literal = false;
    for line in epilogue.lines() {
        let is_literal = line.starts_with(' ');
        if literal && !is_literal {
            out.push_str(".EE\n");
        }
        match line.strip_suffix(':') {
            _ if is_literal && !literal => out.push_str(".EX\n"),
            _ if is_literal || line.is_empty() => {}
            Some("Example" | "Examples") => out.push_str(".SH EXAMPLES\n"),
            Some("Exit codes") => out.push_str(".SH EXIT STATUS\n"),
            Some(heading) if heading.starts_with("Environment") => {
                let _ = writeln!(out, ".SH ENVIRONMENT\n{}:", escaped(heading));
            }
            _ => {
                let _ = writeln!(out, ".PP\n{}", escaped(line));
            }
        }
        if is_literal {
            let line = line.strip_prefix("  ").unwrap_or(line);
            let _ = writeln!(out, "{}", escaped(line.trim_end()));
        }
        literal = is_literal;
    }
    if literal {
        out.push_str(".EE\n");
    }
}

fn write_see_also(out: &mut String, page: &HelpPage) {
    let above = page.path.rsplit_once(' ').map(|(above, _)| above);
    let mut others = Vec::from_iter(above);
    for other in ["fairlead", "fairlead explain"] {
        if other != page.path && !others.contains(&other) {
            others.push(other);
        }
    }
    let others: Vec<_> = others.into_iter().map(reference).collect();
    let _ = writeln!(out, ".SH SEE ALSO\n{}", others.join(",\n"));
}

/// Name of another page: bold, with its section.
fn reference(path: &str) -> String {
    format!("\\fB{}\\fR(1)", escaped(&name(path)))
}

/// A flag or argument: its names are bold, its values are italic.
fn spec(text: &str) -> String {
    match text.split_once(" <") {
        Some((names, values)) => format!(
            "\\fB{}\\fR \\fI{}\\fR",
            escaped(names),
            escaped(&format!("<{values}"))
        ),
        None => format!("\\fB{}\\fR", escaped(text)),
    }
}

/// Text without any meaning for roff, in ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if text.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            '"' => out.push_str("\\(dq"),
            it if it.is_ascii() => out.push(it),
            it => {
                let _ = write!(out, "\\[u{:04X}]", u32::from(it));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
