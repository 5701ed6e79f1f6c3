//! Tables in kubectl's style: no borders, headers in capitals, one line per row. A table that is too wide truncates text first,
//! then the middle of referenced ids, and then omits columns. A cell is never wrapped.

use std::borrow::Cow;

use console::{measure_text_width, truncate_str};
use time::OffsetDateTime;

use crate::age;

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;
/// Minimum width of a truncated cell, in characters.
const MIN_TRUNCATED_CHARS: usize = 10;

/// Column with its header and its behaviour in a narrow terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    name: Cow<'static, str>,
    kind: Kind,
    is_wide: bool,
    min: usize,
    /// Turn in which the column is omitted; `None` for a column that always stays.
    spare: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Id of the row, truncated last.
    Key,
    /// State, time or number, never truncated.
    Word,
    /// Name, or id of another resource, truncated in the middle.
    Id,
    /// Free text, truncated at its end, the rightmost column first.
    Text,
}

impl TableColumn {
    fn of(name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        TableColumn {
            name: name.into(),
            kind,
            is_wide: false,
            min: 0,
            spare: None,
        }
    }

    /// Column for the id of the row.
    #[must_use]
    pub fn key(name: &'static str) -> Self {
        TableColumn::of(name, Kind::Key)
    }

    /// Column for a state, a time or a number.
    #[must_use]
    pub fn word(name: impl Into<Cow<'static, str>>) -> Self {
        TableColumn::of(name, Kind::Word)
    }

    /// Column for a name, or for the id of another resource.
    #[must_use]
    pub fn id(name: impl Into<Cow<'static, str>>) -> Self {
        TableColumn::of(name, Kind::Id)
    }

    /// Column for free text.
    pub fn text(name: impl Into<Cow<'static, str>>) -> Self {
        TableColumn::of(name, Kind::Text)
    }

    /// Shows the column with `-o wide` only.
    #[must_use]
    pub fn wide(self) -> Self {
        TableColumn {
            is_wide: true,
            ..self
        }
    }

    /// Sets a minimum width, for tables with rows that arrive later.
    #[must_use]
    pub fn at_least(self, min: usize) -> Self {
        TableColumn { min, ..self }
    }

    /// Omits the column in a narrow terminal, in the order of these turns; turn 1 precedes the truncation of ids.
    #[must_use]
    pub fn spare(self, turn: u8) -> Self {
        TableColumn {
            spare: Some(turn),
            ..self
        }
    }

    /// True if only `-o wide` shows the column.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.is_wide
    }
}

/// Content of one cell; a time is shown as an age, but compared as a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Text; control characters become spaces.
    Text(String),
    /// Age of a time in the past.
    Since(OffsetDateTime),
    /// Duration until a time in the future.
    Until(OffsetDateTime),
}

impl Cell {
    /// Age of an optional time; empty for `None`.
    #[must_use]
    pub fn since(at: Option<OffsetDateTime>) -> Self {
        at.map_or(Cell::from(""), Cell::Since)
    }

    fn render(&self, now: OffsetDateTime) -> String {
        match self {
            // Text from clusters and tenants must not contain terminal escapes.
            Cell::Text(text) => text.replace(char::is_control, " "),
            Cell::Since(at) => age::between(*at, now),
            Cell::Until(at) if *at <= now => "expired".to_owned(),
            Cell::Until(at) => age::between(now, *at),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<Option<String>> for Cell {
    fn from(text: Option<String>) -> Self {
        Cell::Text(text.unwrap_or_default())
    }
}

/// Renders a whole table; `None` as width disables truncation.
pub(crate) fn table(columns: &[TableColumn], rows: &[Vec<Cell>], width: Option<usize>) -> String {
    let mut layout = Layout::default();
    layout.rows(columns, rows, width, OffsetDateTime::now_utc())
}

/// Column widths, determined by the first rows.
#[derive(Default)]
pub(super) struct Layout {
    widths: Option<Vec<Option<usize>>>,
}

impl Layout {
    /// Renders rows; the first call adds the header.
    pub(super) fn rows(
        &mut self,
        columns: &[TableColumn],
        rows: &[Vec<Cell>],
        width: Option<usize>,
        now: OffsetDateTime,
    ) -> String {
        let mut rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.render(now)).collect())
            .collect();
        let widths = match self.widths.take() {
            Some(widths) => widths,
            None => {
                let header = columns.iter().map(|it| it.name.to_string()).collect();
                rows.insert(0, header);
                fitted(columns, &rows, width)
            }
        };
        let lines = rows.iter().map(|row| line(columns, row, &widths, width));
        let text = lines.collect();
        self.widths = Some(widths);
        text
    }
}

fn line(
    columns: &[TableColumn],
    row: &[String],
    widths: &[Option<usize>],
    limit: Option<usize>,
) -> String {
    let mut line = String::new();
    for ((column, cell), width) in columns.iter().zip(row).zip(widths) {
        let Some(width) = *width else { continue };
        let cell = match limit {
            Some(_) => shortened(column.kind, cell, width),
            None => cell.clone(),
        };
        line.push_str(&cell);
        let blank = (width + COLUMN_GAP).saturating_sub(measure_text_width(&cell));
        line.extend(std::iter::repeat_n(' ', blank.max(COLUMN_GAP)));
    }
    let line = line.trim_end();
    // A later row can have a longer id or state than the first rows.
    let line = limit.map_or(line.into(), |limit| truncate_str(line, limit, "…"));
    line.into_owned() + "\n"
}

fn shortened(kind: Kind, cell: &str, width: usize) -> String {
    match kind {
        Kind::Word => cell.to_owned(),
        Kind::Text => truncate_str(cell, width, "…").into_owned(),
        Kind::Key | Kind::Id => {
            if measure_text_width(cell) <= width {
                return cell.to_owned();
            }
            let tail = width.saturating_sub(1) / 2;
            let head = truncate_str(cell, width.saturating_sub(tail), "…");
            let mut at = cell.char_indices().map(|(at, _)| at);
            let ends = at.find_map(|at| cell.get(at..).filter(|it| measure_text_width(it) <= tail));
            head.into_owned() + ends.unwrap_or_default()
        }
    }
}

/// Width of each column; `None` for an omitted column.
fn fitted(
    columns: &[TableColumn],
    rows: &[Vec<String>],
    limit: Option<usize>,
) -> Vec<Option<usize>> {
    let natural = |at: usize, column: &TableColumn| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let longest = cells.map(|cell| measure_text_width(cell)).max();
        Some(longest.unwrap_or(0).max(column.min))
    };
    let all = columns.iter().enumerate();
    let natural: Vec<Option<usize>> = all.map(|(at, it)| natural(at, it)).collect();
    let Some(limit) = limit else { return natural };
    let last = columns.iter().filter_map(|it| it.spare).max().unwrap_or(0);
    let mut widths = natural.clone();
    for turn in 0..=last {
        let kept = columns.iter().zip(&natural);
        let kept = kept.map(|(it, width)| width.filter(|_| it.spare.is_none_or(|it| it > turn)));
        widths = kept.collect();
        shrink(columns, &mut widths, Kind::Text, limit);
        if turn > 0 || last == 0 {
            shrink(columns, &mut widths, Kind::Id, limit);
        }
        if total(&widths) <= limit {
            return widths;
        }
    }
    shrink(columns, &mut widths, Kind::Key, limit);
    widths
}

fn kept_count(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().count()
}

fn total(widths: &[Option<usize>]) -> usize {
    let gaps = COLUMN_GAP * kept_count(widths).saturating_sub(1);
    widths.iter().flatten().sum::<usize>() + gaps
}

/// Shrinks the columns of a kind until the table fits: texts from the right, other kinds from the widest.
fn shrink(columns: &[TableColumn], widths: &mut [Option<usize>], kind: Kind, limit: usize) {
    while total(widths) > limit {
        let of_kind = columns.iter().zip(widths.iter_mut());
        let reducible = of_kind.filter_map(|(column, width)| {
            let floor = measure_text_width(&column.name).max(MIN_TRUNCATED_CHARS);
            let width = width.as_mut()?;
            (column.kind == kind && *width > floor).then_some(width)
        });
        let next = match kind {
            Kind::Text => reducible.last(),
            _ => reducible.max(),
        };
        match next {
            Some(width) => *width -= 1,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<TableColumn> {
        vec![
            TableColumn::id("NAME").spare(3),
            TableColumn::key("ID"),
            TableColumn::id("TENANT").spare(2),
            TableColumn::word("STATE"),
            TableColumn::text("LAST ERROR").spare(1),
        ]
    }

    fn shown(row: [&str; 5], width: Option<usize>) -> Vec<String> {
        let row = row.map(Cell::from).to_vec();
        let short = ["a", "c-a", "t-a", "Lost", ""].map(Cell::from).to_vec();
        let text = table(&columns(), &[row, short], width);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_is_truncated_before_ids() {
        let error = "the agent has lost its connection";
        let row = ["demo", "c-green-lake-4711", "t-acme", "Connected", error];
        let whole = shown(row, None);
        let expected = format!("demo  c-green-lake-4711  t-acme  Connected  {error}");
        assert_eq!(whole[1], expected);
        assert_eq!(whole[2], "a     c-a                t-a     Lost");
        assert_eq!(shown(row, Some(80)), whole);
        let narrow = shown(row, Some(60));
        assert_eq!(
            narrow[1],
            "demo  c-green-lake-4711  t-acme  Connected  the agent has l…"
        );
    }

    #[test]
    fn long_names_are_truncated_before_the_key() {
        let long = |prefix: &str| prefix.to_owned() + &"x".repeat(61);
        let (id, tenant) = (long("c-"), long("t-"));
        let row = [&id, &id, &tenant, "ApiUnreachable", &id];
        for width in [20, 40, 64, 72, 80, 120, 200] {
            for line in shown(row, Some(width)) {
                assert!(measure_text_width(&line) <= width, "{width}: {line}");
            }
        }
        let at_80 = shown(row, Some(80));
        assert_eq!(at_80[1], format!("{id}  ApiUnreachable"));
        assert!(shown(row, Some(120))[1].contains(&id));
        let columns = [TableColumn::id("FIELD"), TableColumn::text("VALUE")];
        let field = table(
            &columns,
            &[vec![id.as_str().into(), "gold".into()]],
            Some(40),
        );
        assert!(field.ends_with("…xxxxxxxxxxxxxxxx  gold\n"), "{field}");
        let name = "名".repeat(60);
        let row = [&name, "c-a", "t-a", "Lost", ""];
        for line in shown(row, Some(80)) {
            assert!(measure_text_width(&line) <= 80, "{line}");
        }
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first_rows() {
        let columns = [
            TableColumn::key("ID").at_least(6),
            TableColumn::word("STATE"),
            TableColumn::text("ERROR"),
        ];
        let now = OffsetDateTime::UNIX_EPOCH;
        let mut layout = Layout::default();
        let mut rows = |row: [&str; 3]| {
            let row = row.map(Cell::from).to_vec();
            layout.rows(&columns, &[row], Some(24), now)
        };
        assert_eq!(
            rows(["c-a", "Lost", "x"]),
            "ID      STATE  ERROR\nc-a     Lost   x\n"
        );
        assert_eq!(rows(["c-bcde", "Lost", "y"]), "c-bcde  Lost   y\n");
        let long = rows(["c-b", "ApiUnreachable", "timeout"]);
        assert_eq!(long, "c-b     ApiUnreachable …\n");
    }

    #[test]
    fn cell_is_one_line_and_time_is_an_age() {
        let now = OffsetDateTime::UNIX_EPOCH + time::Duration::hours(5);
        let then = OffsetDateTime::UNIX_EPOCH;
        assert_eq!(Cell::from("a\n\u{1b}[31m").render(now), "a  [31m");
        assert_eq!(Cell::Since(then).render(now), "5h");
        assert_eq!(Cell::Until(then).render(now), "expired");
        assert_eq!(Cell::Until(now).render(then), "5h");
        assert_eq!(Cell::since(None).render(now), "");
    }
}
