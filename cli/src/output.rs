//! Answers on stdout: a table for people; JSON, YAML, ids or parts for scripts, all of the very value that the API gave.

use std::{
    io::{self, IsTerminal, Write},
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
    match format {
        Format::Name => print(&names(&serde_json::to_value(value).map_err(unprintable)?)),
        _ => show_named(format, value, |_| String::new(), table),
    }
}

/// As [`show()`], of what has names of its own.
pub(crate) fn show_named<T: Serialize>(
    format: &Format,
    value: &T,
    names: impl FnOnce(&T) -> String,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let json = || serde_json::to_value(value).map_err(unprintable);
    let text = match format {
        Format::Table => table(value),
        Format::Json => serde_json::to_string_pretty(value).map_err(unprintable)? + "\n",
        Format::Yaml => yaml(value)?,
        Format::Name => names(value),
        Format::JsonPath(template) => template.render(&json()?),
    };
    print(&text)
}

/// What a thing is called, by the first of these fields that it has.
const NAMES: [&str; 5] = ["id", "name", "cluster", "instance", "version"];

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

/// Columns as kubectl prints them: no lines, names in capitals. On a terminal they fit its width: what is long is broken.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows = rows.into_iter().map(Vec::from).collect();
    wide_table(header.map(str::to_owned).into(), rows)
}

/// The same of columns that nobody knows before.
pub(crate) fn wide_table(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    fitted(header, rows, terminal_width())
}

/// None where nobody looks at it.
fn terminal_width() -> Option<u16> {
    let width = Table::new().width();
    width.filter(|_| io::stdout().is_terminal())
}

fn fitted(header: Vec<String>, rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    let arrangement = match width {
        Some(width) => {
            // Each line begins with a space, which goes.
            table.set_width(width.saturating_add(1));
            ContentArrangement::Dynamic
        }
        None => ContentArrangement::Disabled,
    };
    table.set_content_arrangement(arrangement);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    let line = |line: String| {
        let line = line.strip_prefix(' ').unwrap_or(&line);
        line.trim_end().to_owned()
    };
    let lines: Vec<_> = table.lines().map(line).collect();
    lines.join("\n") + "\n"
}

/// A point in time, to the second.
pub(crate) fn time(time: time::OffsetDateTime) -> String {
    let whole = time.replace_nanosecond(0).unwrap_or(time);
    whole
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap_or_default()
}

/// Rows that come one after the other, in columns that grow with what is in them. On a terminal a line that is too long is
/// cut: those behind it are not known yet, so columns cannot be fitted.
pub(crate) struct Columns<const N: usize> {
    widths: [usize; N],
    longest: Option<usize>,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new() -> Self {
        Columns {
            widths: [0; N],
            longest: terminal_width().map(usize::from),
        }
    }

    pub(crate) fn row(&mut self, cells: &[String; N]) -> String {
        let mut line = String::new();
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            let len = cell.chars().count();
            *width = len.max(*width);
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', *width - len + 2));
        }
        cut(line.trim_end(), self.longest) + "\n"
    }
}

fn cut(line: &str, longest: Option<usize>) -> String {
    match longest {
        Some(longest) if line.chars().count() > longest => {
            let kept = line.chars().take(longest.saturating_sub(1));
            kept.chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<u16>) -> Vec<String> {
        let header = ["ID", "LAST ERROR"].map(str::to_owned).into();
        let error = "the agent has lost its connection".to_owned();
        let rows = vec![
            vec!["c-demo".to_owned(), error],
            vec![String::new(), "x".to_owned()],
        ];
        let text = fitted(header, rows, width);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_fits_its_terminal_and_is_whole_elsewhere() {
        let whole = shown(None);
        assert_eq!(whole[1], "c-demo  the agent has lost its connection");
        assert_eq!(whole[2], "        x", "a cell stays in its column");
        assert_eq!(shown(Some(80)), whole);
        let narrow = shown(Some(24));
        assert!(narrow.iter().all(|line| line.chars().count() <= 24));
        assert!(narrow.len() > whole.len(), "{narrow:?}");
        assert!(narrow[1].starts_with("c-demo  the agent"), "{narrow:?}");
        assert!(narrow[2].starts_with("        "), "{narrow:?}");
    }

    #[test]
    fn a_line_that_is_followed_by_others_is_cut() {
        assert_eq!(cut("abcdef", Some(6)), "abcdef");
        assert_eq!(cut("abcdef", Some(4)), "abc…");
        assert_eq!(cut("abcdef", None), "abcdef");
    }
}
