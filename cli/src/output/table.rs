//! Tables as kubectl prints them: no lines, names in capitals, one line per row. A table that is too wide for its terminal loses
//! text first, then the middle of foreign ids, then whole columns. No cell is ever broken into two lines.

use std::borrow::Cow;

use console::{measure_text_width, truncate_str};
use time::OffsetDateTime;

use super::age;

/// Spaces between two columns.
const GAP: usize = 2;
/// A cell that is cut keeps at least this many characters.
const CUT_MIN: usize = 10;

/// One column: its name, and its behaviour where the terminal is too narrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    name: Cow<'static, str>,
    kind: Kind,
    is_wide: bool,
    min: usize,
    /// Turn in which it is left out; none of a column that always stays.
    spare: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Id of the row: cut only where nothing else is left.
    Key,
    /// State, time or number: never cut.
    Word,
    /// Name, or id of another thing: cut in the middle.
    Id,
    /// Free text: cut at its end, the rightmost first.
    Text,
}

impl Column {
    fn of(name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        Column {
            name: name.into(),
            kind,
            is_wide: false,
            min: 0,
            spare: None,
        }
    }

    /// Id of the row.
    pub(crate) fn key(name: &'static str) -> Self {
        Column::of(name, Kind::Key)
    }

    /// State, time or number.
    pub(crate) fn word(name: &'static str) -> Self {
        Column::of(name, Kind::Word)
    }

    /// Name, or id of another thing.
    pub(crate) fn id(name: &'static str) -> Self {
        Column::of(name, Kind::Id)
    }

    /// Free text.
    pub(crate) fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Column::of(name, Kind::Text)
    }

    /// Shown with `-o wide` only.
    pub(crate) fn wide(self) -> Self {
        Column {
            is_wide: true,
            ..self
        }
    }

    /// Minimum width, for rows that are not known yet.
    pub(crate) fn at_least(self, min: usize) -> Self {
        Column { min, ..self }
    }

    /// Left out where the terminal is too narrow, in the order of these turns; 1 goes before any id is cut.
    pub(crate) fn spare(self, turn: u8) -> Self {
        Column {
            spare: Some(turn),
            ..self
        }
    }

    /// Whether `-o table` shows it as well.
    pub(crate) fn is_wide(&self) -> bool {
        self.is_wide
    }
}

/// Content of one cell; a time is shown as an age, but compared as a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    /// Time since then.
    Since(OffsetDateTime),
    /// Time until then.
    Until(OffsetDateTime),
}

impl Cell {
    /// Nothing where there is no time.
    pub(crate) fn since(at: Option<OffsetDateTime>) -> Self {
        at.map_or(Cell::from(""), Cell::Since)
    }

    fn render(&self, now: OffsetDateTime) -> String {
        match self {
            // Text of a cluster or a tenant must not move the cursor.
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

/// A whole table; `width` is `None` where nothing is to be cut.
pub(super) fn table(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>) -> String {
    let mut layout = Layout::default();
    layout.rows(columns, rows, width, OffsetDateTime::now_utc())
}

/// Widths of columns, once the first rows are known. Later rows keep to them.
#[derive(Default)]
pub(super) struct Layout {
    widths: Option<Vec<Option<usize>>>,
}

impl Layout {
    /// Lines of these rows, with the header before the first ones.
    pub(super) fn rows(
        &mut self,
        columns: &[Column],
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
    columns: &[Column],
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
        let blank = (width + GAP).saturating_sub(measure_text_width(&cell));
        line.extend(std::iter::repeat_n(' ', blank.max(GAP)));
    }
    let line = line.trim_end();
    // A later row may have a longer id or state than the first ones.
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

/// Width of each column; none of a column that is left out.
fn fitted(columns: &[Column], rows: &[Vec<String>], limit: Option<usize>) -> Vec<Option<usize>> {
    let natural = |at: usize, column: &Column| {
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
    let gaps = GAP * kept_count(widths).saturating_sub(1);
    widths.iter().flatten().sum::<usize>() + gaps
}

/// Takes from the columns of this kind until the table fits: from the rightmost text, from the widest of the others.
fn shrink(columns: &[Column], widths: &mut [Option<usize>], kind: Kind, limit: usize) {
    while total(widths) > limit {
        let of_kind = columns.iter().zip(widths.iter_mut());
        let reducible = of_kind.filter_map(|(column, width)| {
            let floor = measure_text_width(&column.name).max(CUT_MIN);
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

    fn columns() -> Vec<Column> {
        vec![
            Column::id("NAME").spare(3),
            Column::key("ID"),
            Column::id("TENANT").spare(2),
            Column::word("STATE"),
            Column::text("LAST ERROR").spare(1),
        ]
    }

    fn shown(row: [&str; 5], width: Option<usize>) -> Vec<String> {
        let row = row.map(Cell::from).to_vec();
        let short = ["a", "c-a", "t-a", "Lost", ""].map(Cell::from).to_vec();
        let text = table(&columns(), &[row, short], width);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn text_is_cut_and_ids_are_whole() {
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
    fn names_of_any_length_fit_and_the_key_is_whole() {
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
        let columns = [Column::id("FIELD"), Column::text("VALUE")];
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
    fn a_later_row_keeps_to_the_columns_of_the_first_ones() {
        let columns = [
            Column::key("ID").at_least(6),
            Column::word("STATE"),
            Column::text("ERROR"),
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
    fn a_cell_is_one_line_and_a_time_is_an_age() {
        let now = OffsetDateTime::UNIX_EPOCH + time::Duration::hours(5);
        let then = OffsetDateTime::UNIX_EPOCH;
        assert_eq!(Cell::from("a\n\u{1b}[31m").render(now), "a  [31m");
        assert_eq!(Cell::Since(then).render(now), "5h");
        assert_eq!(Cell::Until(then).render(now), "expired");
        assert_eq!(Cell::Until(now).render(then), "5h");
        assert_eq!(Cell::since(None).render(now), "");
    }
}
