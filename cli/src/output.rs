//! Output on stdout: tables for people; JSON, YAML, ids or selected fields for programs, all from the value of the API.

mod age;
mod custom;
pub(crate) mod streams;
mod table;

use std::{
    error::Error,
    io::{self, IsTerminal},
    str::FromStr,
};

use ::time::OffsetDateTime;
use console::Term;
use fairlead_api::{Code, Failure, error_chain, resources::List};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::{
    custom::CustomColumns,
    table::{Cell, TableColumn},
};
use self::{custom::items, table::Layout};
use crate::{environment::Environment, jsonpath::Template};

/// Output format, the value of `-o`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutputFormat {
    Table,
    /// Table with more columns and without truncation.
    Wide,
    Json,
    Yaml,
    /// Ids, one per line.
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

impl OutputFormat {
    /// True for tables with fixed columns.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self, OutputFormat::Table | OutputFormat::Wide)
    }
}

impl FromStr for OutputFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Ok(OutputFormat::JsonPath(template.parse()?)),
            Some(("custom-columns", columns)) => Ok(OutputFormat::CustomColumns(columns.parse()?)),
            _ => match text {
                "table" => Ok(OutputFormat::Table),
                "wide" => Ok(OutputFormat::Wide),
                "json" => Ok(OutputFormat::Json),
                "yaml" => Ok(OutputFormat::Yaml),
                "name" => Ok(OutputFormat::Name),
                _ => Err(
                    "expected table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:.path,..."
                        .to_owned(),
                ),
            },
        }
    }
}

/// Failed output of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Standard output rejects a write.
    #[error("standard output")]
    Write(#[source] io::Error),
    /// A value has no text form.
    #[error("an answer cannot be printed")]
    Serialize(#[source] Box<dyn Error + Send + Sync>),
}

impl OutputError {
    pub(crate) fn serialize(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        OutputError::Serialize(error.into())
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let code = match &error {
            OutputError::Write(_) => Code::CannotWrite,
            OutputError::Serialize(_) => Code::Internal,
        };
        Failure::because(code, error_chain(&error))
    }
}

/// Prints a text; a closed pipe is not a failure.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    print_unless_closed(text).map(drop)
}

/// Prints a text; false for a closed pipe, at which an endless command should stop.
pub(crate) fn print_unless_closed(text: &str) -> Result<bool, OutputError> {
    match streams::write(text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputError::Write(error)),
    }
}

/// Prints a line for people on stderr.
pub(crate) fn note(line: &str) {
    streams::note(line);
}

/// Prints one value; `table` renders it for people.
pub(crate) fn show<T: Serialize>(
    format: &OutputFormat,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    match format {
        OutputFormat::Name => print(&names(&json(value)?)),
        _ => show_named(format, value, |_| String::new(), table),
    }
}

/// Prints one value like [`show()`], with its own function for `-o name`.
pub(crate) fn show_named<T: Serialize>(
    format: &OutputFormat,
    value: &T,
    names: impl FnOnce(&T) -> String,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    let text = match format {
        OutputFormat::Table | OutputFormat::Wide => table(value),
        OutputFormat::Json => {
            serde_json::to_string_pretty(value).map_err(OutputError::serialize)? + "\n"
        }
        OutputFormat::Yaml => yaml(value)?,
        OutputFormat::Name => names(value),
        OutputFormat::JsonPath(template) => template.render(&json(value)?),
        OutputFormat::CustomColumns(columns) => columns.table(&json(value)?),
    };
    print(&text)
}

/// Prints a list; for an empty table it prints `No <things> found.` on stderr.
pub(crate) fn show_list<T: Serialize, const N: usize>(
    format: &OutputFormat,
    list: &List<T>,
    things: &str,
    columns: &[TableColumn; N],
    row: impl Fn(&T) -> [Cell; N],
) -> Result<(), OutputError> {
    if report_if_empty(format, list.items.len(), things) {
        return Ok(());
    }
    let rows = |list: &List<T>| table(format, columns, list.items.iter().map(row));
    show(format, list, rows)
}

/// True for an empty table, after a message on stderr.
pub(crate) fn report_if_empty(format: &OutputFormat, count: usize, things: &str) -> bool {
    let nothing =
        count == 0 && (format.is_table() || matches!(format, OutputFormat::CustomColumns(_)));
    if nothing {
        note(&format!("No {things} found."));
    }
    nothing
}

fn json<T: Serialize>(value: &T) -> Result<Value, OutputError> {
    serde_json::to_value(value).map_err(OutputError::serialize)
}

/// Fields for `-o name`; the first one that a resource has is its name.
const NAME_FIELDS: [&str; 5] = ["id", "name", "cluster", "instance", "version"];

/// Names of all items, one per line.
pub(crate) fn names(value: &Value) -> String {
    let name = |item: &Value| {
        let mut known = NAME_FIELDS
            .iter()
            .filter_map(|field| item.get(*field)?.as_str());
        known.next().map(|name| format!("{name}\n"))
    };
    items(value).iter().filter_map(name).collect()
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, OutputError> {
    serde_saphyr::to_string(value).map_err(OutputError::serialize)
}

/// Renders a table: all columns untruncated with `-o wide`, else the columns that fit the terminal.
pub(crate) fn table<const N: usize>(
    format: &OutputFormat,
    columns: &[TableColumn; N],
    rows: impl IntoIterator<Item = [Cell; N]>,
) -> String {
    let shown = shown_columns(format, columns);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| shown_cells(format, columns, row))
        .collect();
    table::table(&shown, &rows, width(format))
}

/// Renders the columns of `-o table` without truncation.
pub(crate) fn untruncated_table<const N: usize>(
    columns: &[TableColumn; N],
    rows: Vec<[Cell; N]>,
) -> String {
    let shown = shown_columns(&OutputFormat::Table, columns);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| shown_cells(&OutputFormat::Table, columns, row))
        .collect();
    table::table(&shown, &rows, None)
}

/// Age of a time.
pub(crate) fn age(at: OffsetDateTime) -> String {
    age::between(at, OffsetDateTime::now_utc())
}

/// Renders a table with columns named by the response.
pub(crate) fn named_table(
    format: &OutputFormat,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
) -> String {
    let columns: Vec<_> = columns.into_iter().map(TableColumn::text).collect();
    let cells = |row: Vec<String>| row.into_iter().map(Cell::from).collect();
    let rows: Vec<_> = rows.into_iter().map(cells).collect();
    table::table(&columns, &rows, width(format))
}

fn shown_columns(format: &OutputFormat, columns: &[TableColumn]) -> Vec<TableColumn> {
    let shown = |it: &&TableColumn| *format == OutputFormat::Wide || !it.is_wide();
    columns.iter().filter(shown).cloned().collect()
}

/// Cells of the columns that the format shows.
pub(crate) fn shown_cells<const N: usize>(
    format: &OutputFormat,
    columns: &[TableColumn; N],
    row: [Cell; N],
) -> Vec<Cell> {
    let shown = |it: &TableColumn| *format == OutputFormat::Wide || !it.is_wide();
    let pairs = columns.iter().zip(row).filter(|(it, _)| shown(it));
    pairs.map(|(_, cell)| cell).collect()
}

/// Line width of a table; none for `-o wide`.
fn width(format: &OutputFormat) -> Option<usize> {
    match format {
        OutputFormat::Wide => None,
        _ => line_width(),
    }
}

/// Line width from `COLUMNS`, else from the terminal; none where standard output is no terminal.
pub(crate) fn line_width() -> Option<usize> {
    // The terminal of a test run does not matter.
    if cfg!(test) {
        return None;
    }
    let environment = Environment::of_process();
    let given = environment.get("COLUMNS").and_then(|it| it.parse().ok());
    given.filter(|&width| width > 0).or_else(|| {
        let (_, columns) = Term::stdout().size_checked()?;
        io::stdout().is_terminal().then_some(columns.into())
    })
}

/// Formats a time with whole seconds.
pub(crate) fn time(time: OffsetDateTime) -> String {
    fairlead_api::moment::timestamp(time)
}

/// Table with rows that arrive over time. The first rows and [`TableColumn::at_least`] determine the widths for all later rows.
pub(crate) struct Columns<const N: usize> {
    format: OutputFormat,
    columns: [TableColumn; N],
    layout: Layout,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new(format: &OutputFormat, columns: [TableColumn; N]) -> Self {
        Columns {
            format: format.clone(),
            columns,
            layout: Layout::default(),
        }
    }

    /// Renders rows; the first call adds the header.
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
    fn wide_columns_need_the_wide_format() {
        let columns = [TableColumn::key("ID"), TableColumn::word("RTT").wide()];
        let rows = || [["c-a", "3ms"].map(Cell::from)];
        assert_eq!(table(&OutputFormat::Table, &columns, rows()), "ID\nc-a\n");
        let wide = table(&OutputFormat::Wide, &columns, rows());
        assert_eq!(wide, "ID   RTT\nc-a  3ms\n");
    }

    #[test]
    fn formats_are_parsed_with_their_arguments() {
        for text in FORMATS.iter().filter(|it| !it.ends_with('=')) {
            assert!(text.parse::<OutputFormat>().is_ok(), "{text}");
        }
        assert!("custom-columns=ID:.id".parse::<OutputFormat>().is_ok());
        assert!("custom-columns=ID".parse::<OutputFormat>().is_err());
        assert!("jsonpath={.id".parse::<OutputFormat>().is_err());
        assert!("tables".parse::<OutputFormat>().is_err());
    }
}
