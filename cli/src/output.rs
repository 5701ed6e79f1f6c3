//! Answers on stdout: a table for people; JSON, YAML, ids or parts for scripts, all of the very value that the API gave.

mod age;
mod custom;
mod table;

use std::{
    io::{self, IsTerminal, Write},
    str::FromStr,
};

use ::time::OffsetDateTime;
use console::Term;
use fairlead_api::{Code, Failure, resources::List};
use serde::Serialize;
use serde_json::Value;

use self::table::Layout;
pub(crate) use self::{
    custom::CustomColumns,
    table::{Cell, Column},
};
use crate::{environment::Environment, jsonpath::Template};

/// `-o`
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    Table,
    /// A table with more columns, in which nothing is cut.
    Wide,
    Json,
    Yaml,
    /// Ids, one a line.
    Name,
    JsonPath(Template),
    CustomColumns(CustomColumns),
}

/// Values of `-o`, for completion.
pub(crate) const FORMATS: [&str; 7] = [
    "table",
    "wide",
    "json",
    "yaml",
    "name",
    "jsonpath=",
    "custom-columns=",
];

impl Format {
    /// Whether people read it, in columns of ours.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self, Format::Table | Format::Wide)
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Ok(Format::JsonPath(template.parse()?)),
            Some(("custom-columns", columns)) => Ok(Format::CustomColumns(columns.parse()?)),
            _ => match text {
                "table" => Ok(Format::Table),
                "wide" => Ok(Format::Wide),
                "json" => Ok(Format::Json),
                "yaml" => Ok(Format::Yaml),
                "name" => Ok(Format::Name),
                _ => Err(
                    "expected table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:.path,..."
                        .to_owned(),
                ),
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
        Format::Name => print(&names(&json(value)?)),
        _ => show_named(format, value, |_| String::new(), table),
    }
}

/// As [`show()`], of a value with names of its own.
pub(crate) fn show_named<T: Serialize>(
    format: &Format,
    value: &T,
    names: impl FnOnce(&T) -> String,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table | Format::Wide => table(value),
        Format::Json => serde_json::to_string_pretty(value).map_err(unprintable)? + "\n",
        Format::Yaml => yaml(value)?,
        Format::Name => names(value),
        Format::JsonPath(template) => template.render(&json(value)?),
        Format::CustomColumns(columns) => columns.table(&json(value)?),
    };
    print(&text)
}

/// Prints a list; of an empty one, people read `No <things> found.` on stderr.
pub(crate) fn show_list<T: Serialize, const N: usize>(
    format: &Format,
    list: &List<T>,
    things: &str,
    columns: &[Column; N],
    row: impl Fn(&T) -> [Cell; N],
) -> Result<(), Failure> {
    if is_nothing(format, list.items.len(), things) {
        return Ok(());
    }
    let rows = |list: &List<T>| table(format, columns, list.items.iter().map(row));
    show(format, list, rows)
}

/// Whether there is nothing to print but a sentence on stderr, which is printed.
pub(crate) fn is_nothing(format: &Format, count: usize, things: &str) -> bool {
    let nothing = count == 0 && (format.is_table() || matches!(format, Format::CustomColumns(_)));
    if nothing {
        eprintln!("No {things} found.");
    }
    nothing
}

fn json<T: Serialize>(value: &T) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(unprintable)
}

/// What a thing is called, by the first of these fields that it has.
const NAMES: [&str; 5] = ["id", "name", "cluster", "instance", "version"];

/// The names of all items, one a line.
pub(crate) fn names(value: &Value) -> String {
    let name = |item: &Value| {
        let mut known = NAMES.iter().filter_map(|field| item.get(*field)?.as_str());
        known.next().map(|name| format!("{name}\n"))
    };
    items(value).iter().filter_map(name).collect()
}

/// The items of a list, or the one thing.
fn items(value: &Value) -> &[Value] {
    match value.get("items").unwrap_or(value) {
        Value::Array(items) => items.as_slice(),
        _ => std::slice::from_ref(value),
    }
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

/// Columns of ours: with `-o wide` all of them, uncut; else those that fit the terminal.
pub(crate) fn table<const N: usize>(
    format: &Format,
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [Cell; N]>,
) -> String {
    let shown = shown_columns(format, columns);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| shown_cells(format, columns, row))
        .collect();
    table::table(&shown, &rows, width(format))
}

/// The columns of `-o table`, of which nothing is cut or left out.
pub(crate) fn whole_table<const N: usize>(columns: &[Column; N], rows: Vec<[Cell; N]>) -> String {
    let shown = shown_columns(&Format::Table, columns);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| shown_cells(&Format::Table, columns, row))
        .collect();
    table::table(&shown, &rows, None)
}

/// Time since then.
pub(crate) fn age(at: OffsetDateTime) -> String {
    age::between(at, OffsetDateTime::now_utc())
}

/// The same of columns that the answer names.
pub(crate) fn named_table(format: &Format, columns: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let columns: Vec<_> = columns.into_iter().map(Column::text).collect();
    let cells = |row: Vec<String>| row.into_iter().map(Cell::from).collect();
    let rows: Vec<_> = rows.into_iter().map(cells).collect();
    table::table(&columns, &rows, width(format))
}

fn shown_columns(format: &Format, columns: &[Column]) -> Vec<Column> {
    let shown = |it: &&Column| *format == Format::Wide || !it.is_wide();
    columns.iter().filter(shown).cloned().collect()
}

/// Cells of those columns.
pub(crate) fn shown_cells<const N: usize>(
    format: &Format,
    columns: &[Column; N],
    row: [Cell; N],
) -> Vec<Cell> {
    let shown = |it: &Column| *format == Format::Wide || !it.is_wide();
    let pairs = columns.iter().zip(row).filter(|(it, _)| shown(it));
    pairs.map(|(_, cell)| cell).collect()
}

/// Line width of a table; none for `-o wide`.
fn width(format: &Format) -> Option<usize> {
    match format {
        Format::Wide => None,
        _ => line_width(),
    }
}

/// Line width from `COLUMNS`, else from the terminal; none where standard output is no terminal.
pub(crate) fn line_width() -> Option<usize> {
    let environment = Environment::of_process();
    let given = environment.get("COLUMNS").and_then(|it| it.parse().ok());
    given.filter(|&width| width > 0).or_else(|| {
        let (_, columns) = Term::stdout().size_checked()?;
        io::stdout().is_terminal().then_some(columns.into())
    })
}

/// A point in time, to the second.
pub(crate) fn time(time: OffsetDateTime) -> String {
    fairlead_api::moment::timestamp(time)
}

/// A table whose rows come one after the other. The first ones decide about the widths, with [`Column::at_least`]; later rows keep to
/// them.
pub(crate) struct Columns<const N: usize> {
    format: Format,
    columns: [Column; N],
    layout: Layout,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new(format: &Format, columns: [Column; N]) -> Self {
        Columns {
            format: format.clone(),
            columns,
            layout: Layout::default(),
        }
    }

    /// Lines of these rows, the first time with the header before them.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = [Cell; N]>) -> String {
        let shown = shown_columns(&self.format, &self.columns);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| shown_cells(&self.format, &self.columns, row))
            .collect();
        let now = OffsetDateTime::now_utc();
        self.layout.rows(&shown, &rows, width(&self.format), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_columns_are_for_those_who_ask_for_them() {
        let columns = [Column::key("ID"), Column::word("RTT").wide()];
        let rows = || [["c-a", "3ms"].map(Cell::from)];
        assert_eq!(table(&Format::Table, &columns, rows()), "ID\nc-a\n");
        let wide = table(&Format::Wide, &columns, rows());
        assert_eq!(wide, "ID   RTT\nc-a  3ms\n");
    }

    #[test]
    fn formats_are_read_with_what_belongs_to_them() {
        for text in FORMATS.iter().filter(|it| !it.ends_with('=')) {
            assert!(text.parse::<Format>().is_ok(), "{text}");
        }
        assert!("custom-columns=ID:.id".parse::<Format>().is_ok());
        assert!("custom-columns=ID".parse::<Format>().is_err());
        assert!("jsonpath={.id".parse::<Format>().is_err());
        assert!("tables".parse::<Format>().is_err());
    }
}
