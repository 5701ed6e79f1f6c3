//! Search for all forms of all values at once.

use std::{collections::BTreeMap, fmt, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};

/// Characters beside a match that hold bits of the value: those of base64 at an odd offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// Automaton of all forms. Its debug form shows their number only.
pub(super) struct Matcher {
    automaton: Option<AhoCorasick>,
    edges: Vec<Edges>,
}

impl Matcher {
    pub(super) fn new(forms: BTreeMap<Vec<u8>, Edges>) -> Result<Self, BuildError> {
        let edges = forms.values().copied().collect();
        let automaton = if forms.is_empty() {
            None
        } else {
            let mut builder = AhoCorasick::builder();
            builder.match_kind(MatchKind::Standard);
            builder.kind(Some(AhoCorasickKind::ContiguousNFA));
            Some(builder.build(forms.into_keys())?)
        };
        Ok(Self { automaton, edges })
    }

    /// Length of the longest form.
    pub(super) fn longest(&self) -> usize {
        self.automaton
            .as_ref()
            .map_or(0, AhoCorasick::max_pattern_len)
    }

    /// Memory of the automaton.
    #[cfg(test)]
    pub(super) fn memory_usage(&self) -> usize {
        self.automaton.as_ref().map_or(0, AhoCorasick::memory_usage)
    }

    /// Bytes that belong to a form of a value, as merged ranges in order. Overlapping matches count, so that the rest of a
    /// value behind another one does not stay.
    pub(super) fn ranges(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        let is_edge = |at: Option<usize>| {
            let byte = at.and_then(|at| bytes.get(at));
            byte.is_some_and(|it| it.is_ascii_alphanumeric() || b"+/-_".contains(it))
        };
        let mut ranges: Vec<Range<usize>> = automaton
            .find_overlapping_iter(bytes)
            .map(|found| {
                let edges = self.edges.get(found.pattern().as_usize()).copied();
                let edges = edges.unwrap_or_default();
                let before = edges.before && is_edge(found.start().checked_sub(1));
                let after = edges.after && is_edge(Some(found.end()));
                found.start() - usize::from(before)..found.end() + usize::from(after)
            })
            .collect();
        ranges.sort_unstable_by_key(|it| it.start);
        merged(ranges)
    }
}

/// Joins ranges that overlap or touch. They are ordered by their start.
pub(super) fn merged(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.edges.len();
        f.debug_struct("Matcher")
            .field("forms", &forms)
            .finish_non_exhaustive()
    }
}
