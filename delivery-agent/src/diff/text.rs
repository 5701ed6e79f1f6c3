//! Text of a diff: unified, masked, bounded.

use fairlead_manifests::ObjectKey;
use fairlead_masking::Masker;
use serde_json::Value;
use similar::TextDiff;

use super::{MAX_DIFF_BYTES, yaml::to_yaml};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Space for the last lines.
const RESERVED_BYTES: usize = 512;
/// Larger objects are not compared line by line: the time grows with the square of the changes.
const MAX_COMPARED_BYTES: usize = 512 * 1024;
const CUT: &str = "… the rest is left out: a diff has at most 1 MiB\n";

/// Diffs of objects, one after the other.
pub(super) struct DiffText<'a> {
    masker: Option<&'a Masker>,
    text: String,
    is_cut: bool,
}

impl<'a> DiffText<'a> {
    pub(super) fn new(masker: Option<&'a Masker>) -> Self {
        Self {
            masker,
            text: String::new(),
            is_cut: false,
        }
    }

    /// Adds the diff of an object. Secret values are masked before the comparison, so that no part of one is shown.
    pub(super) fn add(&mut self, key: &ObjectKey, live: Option<&Value>, new: Option<&Value>) {
        if self.is_cut {
            return;
        }
        let yaml = |object: Option<&Value>| {
            let text = object.map(to_yaml).unwrap_or_default();
            self.masker
                .map_or_else(|| text.clone(), |it| it.mask(&text))
        };
        let (before, after) = (yaml(live), yaml(new));
        let name = |object: Option<&Value>, place: &str| match object {
            None => "/dev/null".to_owned(),
            Some(_) => format!("{key} ({place})"),
        };
        let (old_name, new_name) = (name(live, "cluster"), name(new, "bundle"));
        if before.len() + after.len() > MAX_COMPARED_BYTES {
            self.push(&format!(
                "--- {old_name}\n+++ {new_name}\n! too large to show: {} and {} bytes\n",
                before.len(),
                after.len()
            ));
            return;
        }
        let diff = TextDiff::from_lines(&before, &after);
        let mut unified = diff.unified_diff();
        let unified = unified
            .context_radius(CONTEXT_LINES)
            .header(&old_name, &new_name);
        let unified = unified.to_string();
        if unified.is_empty() {
            // Masked or hidden values are all that differs.
            self.push(&format!(
                "--- {old_name}\n+++ {new_name}\n! hidden values differ\n"
            ));
        } else {
            self.push(&unified);
        }
    }

    /// Adds one line.
    pub(super) fn line(&mut self, line: &str) {
        let line = self
            .masker
            .map_or_else(|| line.to_owned(), |it| it.mask(line));
        self.push(&format!("{line}\n"));
    }

    fn push(&mut self, part: &str) {
        if self.is_cut {
            return;
        }
        let space = MAX_DIFF_BYTES - RESERVED_BYTES;
        if self.text.len() + part.len() <= space {
            self.text.push_str(part);
            return;
        }
        // Whole lines only.
        let mut end = space - self.text.len();
        while !part.is_char_boundary(end) {
            end -= 1;
        }
        let kept = part.get(..end).unwrap_or_default();
        let kept = kept.rfind('\n').and_then(|end| kept.get(..=end));
        self.text.push_str(kept.unwrap_or_default());
        self.text.push_str(CUT);
        self.is_cut = true;
    }

    /// The text, with a last line.
    pub(super) fn finish(mut self, summary: &str) -> String {
        self.text.push_str(summary);
        self.text.push('\n');
        self.text
    }
}
