//! Compact text of sets of numbers, for storage.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Set of indexes as ascending ranges; in JSON a text like `0-4,7,9-12`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexRanges(Vec<(u32, u32)>);

/// Error of parsing [`IndexRanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected ascending ranges of numbers, like `0-4,7,9-12`")]
pub struct IndexRangesError;

impl IndexRanges {
    /// True without any index.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an index; one that is not above all others is ignored.
    pub fn push(&mut self, index: u32) {
        match self.0.last_mut() {
            Some((_, last)) if index == last.saturating_add(1) => *last = index,
            Some((_, last)) if index <= *last => {}
            _ => self.0.push((index, index)),
        }
    }

    /// True if the set has the index.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= index);
        let before = after.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|&(_, last)| index <= last)
    }
}

impl FromIterator<u32> for IndexRanges {
    /// Makes a set of ascending indexes.
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let mut ranges = IndexRanges::default();
        indexes.into_iter().for_each(|index| ranges.push(index));
        ranges
    }
}

impl fmt::Display for IndexRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for IndexRanges {
    type Err = IndexRangesError;

    fn from_str(text: &str) -> Result<Self, IndexRangesError> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| IndexRangesError)?;
            let last: u32 = last.parse().map_err(|_| IndexRangesError)?;
            let ascends = ranges.last().is_none_or(|&(_, before)| before < first);
            if !ascends || last < first {
                return Err(IndexRangesError);
            }
            ranges.push((first, last));
        }
        Ok(IndexRanges(ranges))
    }
}

impl TryFrom<String> for IndexRanges {
    type Error = IndexRangesError;

    fn try_from(text: String) -> Result<Self, IndexRangesError> {
        text.parse()
    }
}

impl From<IndexRanges> for String {
    fn from(ranges: IndexRanges) -> String {
        ranges.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_set, prelude::*};

    use super::*;

    #[test]
    fn ranges_are_short_text() {
        let ranges: IndexRanges = [0, 1, 2, 3, 4, 7, 9, 10].into_iter().collect();
        assert_eq!(ranges.to_string(), "0-4,7,9-10");
        assert_eq!("".parse::<IndexRanges>().unwrap(), IndexRanges::default());
        for bad in ["-", "a", "3-1", "1,1", "5,2", "1,", ",", "4294967296"] {
            assert!(bad.parse::<IndexRanges>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn ranges_keep_their_members(set in btree_set(0_u32..300, 0..100)) {
            let ranges: IndexRanges = set.iter().copied().collect();
            let again: IndexRanges = ranges.to_string().parse().unwrap();
            prop_assert_eq!(&again, &ranges);
            for index in 0..300 {
                prop_assert_eq!(again.contains(index), set.contains(&index));
            }
        }
    }
}
