//! Answers on stdout: a table for people, JSON or YAML for scripts, both of the very value that the API gave.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use fairlead_api::{Code, Failure};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

/// Prints a text; a reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::because(
            Code::CannotWrite,
            format_args!("standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints one value: `table` makes the text for people.
pub(crate) fn show<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table => table(value),
        Format::Json => serde_json::to_string_pretty(value).map_err(unprintable)? + "\n",
        Format::Yaml => yaml(value)?,
    };
    print(&text)
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(unprintable)
}

fn unprintable(error: impl std::fmt::Display) -> Failure {
    Failure::because(
        Code::Internal,
        format_args!("an answer cannot be printed: {error}"),
    )
}

/// Columns as kubectl prints them: no lines, names in capitals.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// A point in time, to the second.
pub(crate) fn time(time: time::OffsetDateTime) -> String {
    let whole = time.replace_nanosecond(0).unwrap_or(time);
    whole
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap_or_default()
}
