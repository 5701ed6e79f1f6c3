//! Documents of a YAML stream, cut at `---` lines before any parsing, as `kubectl` does.

use std::sync::Arc;

use super::{ManifestError, Place, Problem};

const SEPARATOR: &str = "---";

/// One document: its text with `\n` as line end, and its first line.
pub(super) struct Chunk {
    pub(super) text: String,
    pub(super) place: Place,
}

/// Cuts `text` from byte `start`. `document` is the number of the first document.
pub(super) fn chunks<'a>(
    file: &'a Arc<str>,
    text: &'a str,
    start: usize,
    document: usize,
) -> impl Iterator<Item = Result<Chunk, ManifestError>> + 'a {
    let before = text.get(..start).unwrap_or_default();
    let mut number = before.matches('\n').count();
    let mut lines = text.get(start..).unwrap_or_default().split_terminator('\n');
    let mut document = document;
    let mut done = false;
    std::iter::from_fn(move || {
        let mut chunk = String::new();
        let mut first = None;
        while !done {
            let Some(line) = lines.next() else {
                done = true;
                break;
            };
            number += 1;
            let line = line.strip_suffix('\r').unwrap_or(line);
            if let Some(rest) = line.strip_prefix(SEPARATOR) {
                let rest = rest.trim();
                if !rest.is_empty() && !rest.starts_with('#') {
                    done = true;
                    let place = place(file, document, number);
                    let problem = Problem::Syntax(format!("unexpected text after ---: {rest}"));
                    return Some(Err(ManifestError { place, problem }));
                }
                if first.is_some() {
                    break;
                }
                continue;
            }
            first.get_or_insert(number);
            chunk.push_str(line);
            chunk.push('\n');
        }
        let line = first?;
        let place = place(file, document, line);
        document += 1;
        Some(Ok(Chunk { text: chunk, place }))
    })
}

fn place(file: &Arc<str>, document: usize, line: usize) -> Place {
    Place {
        file: file.clone(),
        document,
        line,
    }
}
