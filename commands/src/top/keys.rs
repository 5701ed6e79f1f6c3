//! Keys of `fairlead top`, and the order and filter that they change.

use std::cmp::Ordering;

use super::rates::TopRow;

/// Limit of a filter, in characters.
const MAX_FILTER_CHARS: usize = 64;
/// Rows of a page of the keys page up and page down.
const PAGE_ROWS: usize = 20;

/// Column by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortKey {
    Name,
    State,
    Version,
    Rtt,
    Requests,
    BytesIn,
    BytesOut,
}

impl SortKey {
    fn of(key: char) -> Option<Self> {
        Some(match key {
            'n' => SortKey::Name,
            's' => SortKey::State,
            'v' => SortKey::Version,
            'p' => SortKey::Rtt,
            'r' => SortKey::Requests,
            'i' => SortKey::BytesIn,
            'o' => SortKey::BytesOut,
            _ => return None,
        })
    }

    /// Order of rows; rates and round trips begin with the largest.
    fn compare(self, one: &TopRow, other: &TopRow) -> Ordering {
        let largest = |one: Option<f64>, other: Option<f64>| {
            let value = |it: Option<f64>| it.unwrap_or(-1.0);
            value(other).total_cmp(&value(one))
        };
        match self {
            SortKey::Name => one.display_name.cmp(&other.display_name),
            SortKey::State => one.state.to_string().cmp(&other.state.to_string()),
            SortKey::Version => one.agent_versions.cmp(&other.agent_versions),
            SortKey::Rtt => other.rtt_micros.cmp(&one.rtt_micros),
            SortKey::Requests => largest(one.requests_per_second, other.requests_per_second),
            SortKey::BytesIn => largest(one.bytes_in_per_second, other.bytes_in_per_second),
            SortKey::BytesOut => largest(one.bytes_out_per_second, other.bytes_out_per_second),
        }
    }
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Interrupt,
}

/// Parses the bytes of one read. A lone escape byte is the key Escape: terminals send longer sequences at once.
pub(super) fn parse(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 6] = [
        (b"\x1b[A", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOA", Key::Up),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
    ];
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((&first, behind)) = rest.split_first() {
        let sequence = SEQUENCES.iter().find(|(bytes, _)| rest.starts_with(bytes));
        if let Some((bytes, key)) = sequence {
            keys.push(*key);
            rest = rest.get(bytes.len()..).unwrap_or_default();
            continue;
        }
        if first == 0x1b && !behind.is_empty() {
            // A sequence that has no meaning here.
            break;
        }
        rest = behind;
        keys.extend(match first {
            0x03 => Some(Key::Interrupt),
            b'\r' | b'\n' => Some(Key::Enter),
            0x1b => Some(Key::Escape),
            0x08 | 0x7f => Some(Key::Backspace),
            byte if byte == b' ' || byte.is_ascii_graphic() => Some(Key::Char(char::from(byte))),
            _ => None,
        });
    }
    keys
}

/// Order, filter and position of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) sort: SortKey,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// Keys go into the filter.
    pub(super) is_typing: bool,
    /// Rows above the first shown one.
    pub(super) skipped: usize,
}

impl Default for View {
    fn default() -> Self {
        View {
            sort: SortKey::Requests,
            reversed: false,
            filter: String::new(),
            is_typing: false,
            skipped: 0,
        }
    }
}

impl View {
    /// Takes a key; true if it quits.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Interrupt => return true,
            Key::Up => self.skipped = self.skipped.saturating_sub(1),
            Key::Down => self.skipped = self.skipped.saturating_add(1),
            Key::PageUp => self.skipped = self.skipped.saturating_sub(PAGE_ROWS),
            Key::PageDown => self.skipped = self.skipped.saturating_add(PAGE_ROWS),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace if self.is_typing => drop(self.filter.pop()),
            Key::Backspace => {}
            Key::Char(typed) if self.is_typing => {
                if self.filter.len() < MAX_FILTER_CHARS {
                    self.filter.push(typed);
                }
                self.skipped = 0;
            }
            Key::Char('q') => return true,
            Key::Char('/') => self.is_typing = true,
            Key::Char(other) => {
                if let Some(key) = SortKey::of(other) {
                    self.reversed = key == self.sort && !self.reversed;
                    self.sort = key;
                    self.skipped = 0;
                }
            }
        }
        false
    }

    /// Filters and sorts rows. Rows alike are in the order of their names.
    pub(super) fn arrange(&self, rows: &mut Vec<TopRow>) {
        let filter = self.filter.to_lowercase();
        rows.retain(|row| {
            let texts = [
                row.display_name.to_lowercase(),
                row.id.to_string(),
                row.tenant.to_string(),
                row.state.to_string().to_lowercase(),
            ];
            texts.iter().any(|text| text.contains(&filter))
        });
        rows.sort_by(|one, other| {
            let order = self.sort.compare(one, other);
            let order = if self.reversed {
                order.reverse()
            } else {
                order
            };
            let names = one.display_name.cmp(&other.display_name);
            order.then(names).then_with(|| one.id.cmp(&other.id))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::rates::{rates, tests::activity};

    fn names(view: &View) -> Vec<String> {
        let before = [("c-b", "Connected", Some(0)), ("c-a", "Connected", Some(0))];
        let now = [
            ("c-b", "Connected", Some(10)),
            ("c-a", "Connected", Some(90)),
            ("c-c", "Lost", None),
        ];
        let mut rows = rates(Some(&activity(0, &before)), &activity(1, &now));
        view.arrange(&mut rows);
        rows.into_iter().map(|it| it.display_name).collect()
    }

    fn pressed(keys: &[u8]) -> View {
        let mut view = View::default();
        for key in parse(keys) {
            assert!(!view.press(key), "{key:?}");
        }
        view
    }

    #[test]
    fn keys_sort_reverse_and_filter() {
        assert_eq!(names(&View::default()), ["a", "b", "c"]);
        assert_eq!(names(&pressed(b"r")), ["c", "b", "a"], "again: reversed");
        assert_eq!(names(&pressed(b"nn")), ["c", "b", "a"]);
        assert_eq!(names(&pressed(b"s")), ["a", "b", "c"]);
        assert_eq!(names(&pressed(b"/LOST\r")), ["c"]);
        assert_eq!(names(&pressed(b"/qx\x7f\x7fb")), ["b"]);
        assert_eq!(names(&pressed(b"/b\rn")), ["b"]);
        let removed = [parse(b"/b"), parse(b"\x1b")].concat();
        let mut view = View::default();
        removed
            .into_iter()
            .for_each(|key| assert!(!view.press(key)));
        assert_eq!(view, View::default());
    }

    #[test]
    fn sequences_of_a_terminal_are_single_keys() {
        assert_eq!(
            parse(b"\x1b[A\x1b[6~x"),
            [Key::Up, Key::PageDown, Key::Char('x')]
        );
        assert_eq!(parse(b"\x1b"), [Key::Escape]);
        assert_eq!(parse(b"\x1b[15~"), []);
        assert_eq!(parse(b"\x03"), [Key::Interrupt]);
        assert_eq!(parse("ä".as_bytes()), []);
        assert_eq!(pressed(b"\x1b[B\x1b[B\x1b[A").skipped, 1);
        assert!(View::default().press(Key::Char('q')));
        assert!(View::default().press(Key::Interrupt));
    }
}
