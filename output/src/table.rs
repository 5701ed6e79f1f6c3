//! Tables of answers: their columns by format, and rows that arrive over time.

pub(crate) mod layout;

use time::OffsetDateTime;

use self::layout::{Cell, Layout, TableColumn};
use crate::format::OutputFormat;

/// Renders a table: all columns untruncated with `-o wide`, else the columns that fit the line.
pub fn table<const N: usize>(
    format: &OutputFormat,
    columns: &[TableColumn; N],
    rows: impl IntoIterator<Item = [Cell; N]>,
    line_width: Option<usize>,
) -> String {
    let shown = shown_columns(format, columns);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| shown_cells(format, columns, row))
        .collect();
    layout::table(&shown, &rows, table_width(format, line_width))
}

/// Renders the columns of `-o table` without truncation.
#[must_use]
pub fn untruncated_table<const N: usize>(
    columns: &[TableColumn; N],
    rows: Vec<[Cell; N]>,
) -> String {
    table(&OutputFormat::Table, columns, rows, None)
}

/// Renders a table with columns named by the response.
#[must_use]
pub fn named_table(
    format: &OutputFormat,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    line_width: Option<usize>,
) -> String {
    let columns: Vec<_> = columns.into_iter().map(TableColumn::text).collect();
    let cells = |row: Vec<String>| row.into_iter().map(Cell::from).collect();
    let rows: Vec<_> = rows.into_iter().map(cells).collect();
    layout::table(&columns, &rows, table_width(format, line_width))
}

fn shown_columns(format: &OutputFormat, columns: &[TableColumn]) -> Vec<TableColumn> {
    let shown = |it: &&TableColumn| *format == OutputFormat::Wide || !it.is_wide();
    columns.iter().filter(shown).cloned().collect()
}

/// Cells of the columns that the format shows.
pub fn shown_cells<const N: usize>(
    format: &OutputFormat,
    columns: &[TableColumn; N],
    row: [Cell; N],
) -> Vec<Cell> {
    let shown = |it: &TableColumn| *format == OutputFormat::Wide || !it.is_wide();
    let pairs = columns.iter().zip(row).filter(|(it, _)| shown(it));
    pairs.map(|(_, cell)| cell).collect()
}

/// Width of a table; none for `-o wide`.
fn table_width(format: &OutputFormat, line_width: Option<usize>) -> Option<usize> {
    match format {
        OutputFormat::Wide => None,
        _ => line_width,
    }
}

/// Table with rows that arrive over time. The first rows and [`TableColumn::at_least`] determine the widths for all later rows.
pub struct Columns<const N: usize> {
    format: OutputFormat,
    columns: [TableColumn; N],
    layout: Layout,
}

impl<const N: usize> Columns<N> {
    /// Table without rows.
    #[must_use]
    pub fn new(format: &OutputFormat, columns: [TableColumn; N]) -> Self {
        Columns {
            format: format.clone(),
            columns,
            layout: Layout::default(),
        }
    }

    /// Renders rows; the first call adds the header.
    pub fn rows(
        &mut self,
        rows: impl IntoIterator<Item = [Cell; N]>,
        line_width: Option<usize>,
    ) -> String {
        let shown = shown_columns(&self.format, &self.columns);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| shown_cells(&self.format, &self.columns, row))
            .collect();
        let now = OffsetDateTime::now_utc();
        let width = table_width(&self.format, line_width);
        self.layout.rows(&shown, &rows, width, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_columns_need_the_wide_format() {
        let columns = [TableColumn::key("ID"), TableColumn::word("RTT").wide()];
        let rows = || [["c-a", "3ms"].map(Cell::from)];
        let narrow = table(&OutputFormat::Table, &columns, rows(), None);
        assert_eq!(narrow, "ID\nc-a\n");
        let wide = table(&OutputFormat::Wide, &columns, rows(), None);
        assert_eq!(wide, "ID   RTT\nc-a  3ms\n");
    }
}
