//! Answers on stdout: a table for people; JSON, YAML, ids or parts for scripts, all of the very value that the API gave.

use std::{
    io::{self, Write},
    str::FromStr,
};

use comfy_table::{ContentArrangement, Table, presets};
use fairlead_api::{Code, Failure};
use serde::Serialize;
use serde_json::Value;

use crate::jsonpath::Template;

/// `-o`
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
    /// Ids, one a line.
    Name,
    JsonPath(Template),
}

/// What `-o` may be.
pub(crate) const FORMATS: [&str; 5] = ["table", "json", "yaml", "name", "jsonpath="];

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Ok(Format::JsonPath(template.parse()?)),
            _ => match text {
                "table" => Ok(Format::Table),
                "json" => Ok(Format::Json),
                "yaml" => Ok(Format::Yaml),
                "name" => Ok(Format::Name),
                _ => Err("expected table, json, yaml, name or jsonpath=TEMPLATE".to_owned()),
            },
        }
    }
}

/// Prints a text; a reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    still_read(text).map(drop)
}

/// As [`print()`]; false when nobody reads any more, and whoever would print for ever had better end.
pub(crate) fn still_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::because(
            Code::CannotWrite,
            format_args!("standard output: {error}"),
        )),
    }
}

/// Prints one value: `table` makes the text for people.
pub(crate) fn show<T: Serialize>(
    format: &Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let json = || serde_json::to_value(value).map_err(unprintable);
    let text = match format {
        Format::Table => table(value),
        Format::Json => serde_json::to_string_pretty(value).map_err(unprintable)? + "\n",
        Format::Yaml => yaml(value)?,
        Format::Name => names(&json()?),
        Format::JsonPath(template) => template.render(&json()?),
    };
    print(&text)
}

/// What a thing is called, by the first of these fields that it has.
const NAMES: [&str; 4] = ["id", "name", "cluster", "version"];

/// The names of all items, one a line.
pub(crate) fn names(value: &Value) -> String {
    let items = value.get("items").unwrap_or(value);
    let items = match items {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let name = |item: &Value| {
        let mut known = NAMES.iter().filter_map(|field| item.get(*field)?.as_str());
        known.next().map(|name| format!("{name}\n"))
    };
    items.iter().filter_map(name).collect()
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

/// Rows that come one after the other, in columns that grow with what is in them.
pub(crate) struct Columns<const N: usize>([usize; N]);

impl<const N: usize> Columns<N> {
    pub(crate) fn new() -> Self {
        Columns([0; N])
    }

    pub(crate) fn row(&mut self, cells: &[String; N]) -> String {
        let mut line = String::new();
        for (width, cell) in self.0.iter_mut().zip(cells) {
            let len = cell.chars().count();
            *width = len.max(*width);
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', *width - len + 2));
        }
        line.trim_end().to_owned() + "\n"
    }
}
