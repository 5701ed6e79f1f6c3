//! Output of commands on stdout, and notes for people on stderr.

pub mod streams;

use std::io::{self, IsTerminal};

use console::Term;
use fairlead_api::{Code, Failure, error_chain, resources::List};
use fairlead_client::{Environment, changes::HubOutage};
use serde::Serialize;

pub use fairlead_output::{
    Cell, Columns, FORMATS, OutputFormat, RenderError, TableColumn, age, line, short, shown_cells,
    time, untruncated_table, yaml,
};
use fairlead_output::{names, render};

/// Failed output of a command.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output rejects a write.
    #[error("standard output")]
    Write(#[source] io::Error),
    /// A value has no text form.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Write(_) => Failure::because(Code::CannotWrite, error_chain(&error)),
            OutputError::Render(error) => error.into(),
        }
    }
}

/// Text of others on one line. It must not contain terminal escapes.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Prints a text; a closed pipe is not a failure.
///
/// # Errors
///
/// [`OutputError::Write`].
pub fn print(text: &str) -> Result<(), OutputError> {
    print_unless_closed(text).map(drop)
}

/// Prints a text; false for a closed pipe, at which an endless command should stop.
///
/// # Errors
///
/// [`OutputError::Write`].
pub fn print_unless_closed(text: &str) -> Result<bool, OutputError> {
    match streams::write(text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputError::Write(error)),
    }
}

/// Prints a line for people on stderr.
pub fn note(line: &str) {
    streams::note(line);
}

/// Prints the begin or the end of an outage of the hub.
pub fn note_outage(outage: HubOutage<'_>) {
    match outage {
        HubOutage::Began(failure) => note(&format!(
            "{} ({}); waiting for the hub",
            failure.cause, failure.code
        )),
        HubOutage::Ended => note("the hub is back"),
    }
}

/// Prints one value; `table` renders it for people.
///
/// # Errors
///
/// [`OutputError`].
pub fn show<T: Serialize>(
    format: &OutputFormat,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    match format {
        OutputFormat::Name => print(&names(value)?),
        _ => show_named(format, value, |_| String::new(), table),
    }
}

/// Prints one value like [`show()`], with its own function for `-o name`.
///
/// # Errors
///
/// [`OutputError`].
pub fn show_named<T: Serialize>(
    format: &OutputFormat,
    value: &T,
    names: impl FnOnce(&T) -> String,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    print(&render(format, value, names, table)?)
}

/// Prints a list; for an empty table it prints `No <things> found.` on stderr.
///
/// # Errors
///
/// [`OutputError`].
pub fn show_list<T: Serialize, const N: usize>(
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
pub fn report_if_empty(format: &OutputFormat, count: usize, things: &str) -> bool {
    let nothing =
        count == 0 && (format.is_table() || matches!(format, OutputFormat::CustomColumns(_)));
    if nothing {
        note(&format!("No {things} found."));
    }
    nothing
}

/// Renders a table that fits the terminal, or all columns untruncated with `-o wide`.
pub fn table<const N: usize>(
    format: &OutputFormat,
    columns: &[TableColumn; N],
    rows: impl IntoIterator<Item = [Cell; N]>,
) -> String {
    fairlead_output::table(format, columns, rows, line_width())
}

/// Renders a table with columns named by the response.
pub fn named_table(format: &OutputFormat, columns: Vec<String>, rows: Vec<Vec<String>>) -> String {
    fairlead_output::named_table(format, columns, rows, line_width())
}

/// Line width from `COLUMNS`, else from the terminal; none where standard output is no terminal.
pub fn line_width() -> Option<usize> {
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
