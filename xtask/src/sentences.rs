//! Sentences of documents that are too long to be read once.

use crate::sources::{Kind, Source};

const MAX_WORDS: usize = 40;
/// Goal for 95 of 100 sentences.
pub(crate) const LONG_WORDS: usize = 30;

/// A sentence of a document.
pub(crate) struct Sentence {
    /// Line of its first word, from 1.
    pub(crate) line: usize,
    pub(crate) words: usize,
    text: String,
}

pub(crate) fn check(file: &Source) -> Vec<String> {
    let sentences = sentences(file).into_iter();
    sentences
        .filter(|it| it.words > MAX_WORDS)
        .map(|it| {
            let begin: String = it.text.chars().take(60).collect();
            format!(
                "{}:{}: {} words in a sentence, {MAX_WORDS} at most: {begin} ...",
                file.path, it.line, it.words
            )
        })
        .collect()
}

/// Sentences of paragraphs and list items; code blocks, tables, headings and HTML have none.
pub(crate) fn sentences(file: &Source) -> Vec<Sentence> {
    if file.kind != Kind::Document {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut current = Sentence {
        line: 1,
        words: 0,
        text: String::new(),
    };
    let mut in_code = false;
    for (at, line) in (1..).zip(file.text.lines()) {
        let line = line.trim();
        let fence = line.starts_with("```");
        in_code ^= fence;
        let is_item = line.starts_with("- ") || line.starts_with("* ") || is_numbered(line);
        if in_code || fence || is_item || line.is_empty() || line.starts_with(['#', '|', '<']) {
            end(&mut current, &mut found);
        }
        if in_code || fence || line.starts_with(['#', '|', '<']) {
            continue;
        }
        for word in line.split_whitespace() {
            if current.words == 0 {
                current.line = at;
            }
            if word.contains(|c: char| c.is_alphanumeric()) {
                current.words += 1;
            }
            current.text += word;
            current.text.push(' ');
            if word
                .trim_end_matches(['*', '_', ')', '"', '`'])
                .ends_with(['.', '!', '?'])
                && !is_numbered(word)
            {
                end(&mut current, &mut found);
            }
        }
    }
    end(&mut current, &mut found);
    found
}

/// An item of an ordered list begins with a number and a full stop.
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(". ") || rest == ".")
}

fn end(current: &mut Sentence, found: &mut Vec<Sentence>) {
    let done = std::mem::replace(
        current,
        Sentence {
            line: 1,
            words: 0,
            text: String::new(),
        },
    );
    if done.words > 0 {
        found.push(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Source {
        let (path, text) = ("docs/sample.md".to_owned(), text.to_owned());
        Source {
            path,
            text,
            kind: Kind::Document,
            group: "sample".to_owned(),
        }
    }

    #[test]
    fn sentence_over_lines_is_found_at_its_first_line() {
        let long = "word ".repeat(20) + "\n" + &"word ".repeat(21) + "end.";
        let findings = check(&document(&format!("# Title\n\nShort. {long}\n")));
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("docs/sample.md:3: 42 words"),
            "{findings:?}"
        );
    }

    #[test]
    fn code_tables_and_items_are_no_long_sentences() {
        let words = "word ".repeat(30);
        let text = format!(
            "```\n{words}{words}\n```\n| {words} | {words} |\n- {words}\n- {words}\n1. {words}\n"
        );
        assert!(check(&document(&text)).is_empty());
    }
}
