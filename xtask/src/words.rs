//! Pronouns that name a thing by a relative clause: "what was sent" in the place of "sent frames".

use std::collections::BTreeMap;

use crate::sources::Source;

const PRONOUNS: [&str; 7] = [
    "what", "who", "whom", "whose", "whoever", "whatever", "whomever",
];
const MAX_PRONOUNS_PER_1000_WORDS: f64 = 3.0;
/// One pronoun in a group of fewer words is no habit.
const MIN_PRONOUNS: usize = 3;
/// Places printed per group.
const MAX_PLACES: usize = 5;

/// Counts of one group's comments and documents.
#[derive(Default)]
pub(crate) struct WordCount {
    pub(crate) words: usize,
    pub(crate) pronouns: usize,
    places: Vec<String>,
}

impl WordCount {
    /// Pronouns per 1,000 words.
    #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
    pub(crate) fn rate(&self) -> f64 {
        1000.0 * self.pronouns as f64 / self.words.max(1) as f64
    }
}

/// Counts by group, which is a crate or the files at the root.
pub(crate) fn count(files: &[Source]) -> BTreeMap<&str, WordCount> {
    let mut groups = BTreeMap::<&str, WordCount>::new();
    for file in files {
        let count = groups.entry(&file.group).or_default();
        for (at, text) in file.prose() {
            for word in words(text) {
                count.words += 1;
                if PRONOUNS.iter().any(|it| word.eq_ignore_ascii_case(it)) {
                    count.pronouns += 1;
                    count.places.push(format!("{}:{at}:{text}", file.path));
                }
            }
        }
    }
    groups
}

pub(crate) fn check(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for (group, count) in count(files) {
        if count.pronouns < MIN_PRONOUNS || count.rate() <= MAX_PRONOUNS_PER_1000_WORDS {
            continue;
        }
        let rate = count.rate();
        let (pronouns, words) = (count.pronouns, count.words);
        let mut finding = format!(
            "{group}: {rate:.1} of {} per 1,000 words ({pronouns} of {words}), {MAX_PRONOUNS_PER_1000_WORDS} at most",
            PRONOUNS.join("/"),
        );
        for place in count.places.iter().take(MAX_PLACES) {
            finding += &format!("\n  {place}");
        }
        findings.push(finding);
    }
    findings
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Kind;

    fn crate_with(text: &str) -> [Source; 1] {
        let (path, text) = ("sample/src/lib.rs".to_owned(), text.to_owned());
        [Source {
            path,
            text,
            kind: Kind::Rust,
            group: "sample".to_owned(),
        }]
    }

    #[test]
    fn relative_clauses_are_found_with_their_place() {
        let files = crate_with("/// What was sent.\n/// Who waits.\nfn a() {} // whoever asks\n");
        let findings = check(&files);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].contains("sample/src/lib.rs:2: Who waits."),
            "{findings:?}"
        );
    }

    #[test]
    fn plain_words_pass() {
        assert!(
            check(&crate_with(
                "/// Retransmit buffer: frames not yet acknowledged.\n"
            ))
            .is_empty()
        );
    }

    #[test]
    fn code_and_strings_are_not_prose() {
        let files = crate_with("let what = \"who\"; let whom = whose; fn whoever() {}\n");
        assert!(check(&files).is_empty());
    }
}
