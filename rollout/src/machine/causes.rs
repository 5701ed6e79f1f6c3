//! Causes of failures: texts shared by the clusters that report them.

use std::collections::HashMap;

/// Maximum number of different texts; further ones are counted together.
const MAX_CAUSES: usize = 256;

/// Text of the causes beyond [`MAX_CAUSES`].
const OTHER_CAUSES: &str = "other causes";

/// Number of no cause.
pub(super) const NO_CAUSE: u16 = 0;

/// Number of the causes beyond [`MAX_CAUSES`].
const OTHER_CAUSE_NUMBER: u16 = 1;

/// Table of texts with the number of their users. Texts without users leave the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Causes {
    numbers: HashMap<Box<str>, u16>,
    entries: Vec<Entry>,
    free: Vec<u16>,
}

#[derive(Debug, Clone)]
struct Entry {
    text: Box<str>,
    users: u32,
}

impl Causes {
    /// Number of the text, with one more user.
    pub(super) fn acquire(&mut self, text: Option<&str>) -> u16 {
        let Some(text) = text.filter(|it| !it.is_empty()) else {
            return NO_CAUSE;
        };
        if let Some(&number) = self.numbers.get(text) {
            if let Some(entry) = self.entry(number) {
                entry.users += 1;
            }
            return number;
        }
        if self.numbers.len() >= MAX_CAUSES {
            return OTHER_CAUSE_NUMBER;
        }
        let entry = Entry {
            text: text.into(),
            users: 1,
        };
        let number = if let Some(number) = self.free.pop() {
            if let Some(unused) = self.entry(number) {
                *unused = entry;
            }
            number
        } else {
            self.entries.push(entry);
            u16::try_from(self.entries.len())
                .map_or(OTHER_CAUSE_NUMBER, |len| len + OTHER_CAUSE_NUMBER)
        };
        self.numbers.insert(text.into(), number);
        number
    }

    /// Takes one user away.
    pub(super) fn release(&mut self, number: u16) {
        let Some(entry) = self.entry(number) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        if entry.users == 0 {
            let text = std::mem::take(&mut entry.text);
            self.numbers.remove(&text);
            self.free.push(number);
        }
    }

    /// Text of a number; `None` without a cause.
    pub(super) fn text(&self, number: u16) -> Option<&str> {
        if number == OTHER_CAUSE_NUMBER {
            return Some(OTHER_CAUSES);
        }
        let entry = self.entries.get(index(number)?)?;
        Some(&entry.text)
    }

    fn entry(&mut self, number: u16) -> Option<&mut Entry> {
        self.entries.get_mut(index(number)?)
    }
}

fn index(number: u16) -> Option<usize> {
    number.checked_sub(OTHER_CAUSE_NUMBER + 1).map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shared_and_leave_with_their_last_user() {
        let mut causes = Causes::default();
        let first = causes.acquire(Some("image pull failed"));
        assert_eq!(causes.acquire(Some("image pull failed")), first);
        assert_eq!(causes.text(first), Some("image pull failed"));
        causes.release(first);
        causes.release(first);
        let second = causes.acquire(Some("quota exceeded"));
        assert_eq!(
            (second, causes.text(second)),
            (first, Some("quota exceeded"))
        );
        assert_eq!(causes.acquire(None), NO_CAUSE);
        assert_eq!(causes.text(NO_CAUSE), None);
    }

    #[test]
    fn number_of_texts_is_bounded() {
        let mut causes = Causes::default();
        let numbers: Vec<_> = (0..1000)
            .map(|it| causes.acquire(Some(&format!("pod web-{it} failed"))))
            .collect();
        assert_eq!(causes.text(numbers[999]), Some(OTHER_CAUSES));
        numbers.into_iter().for_each(|it| causes.release(it));
        assert!(causes.numbers.is_empty());
    }
}
