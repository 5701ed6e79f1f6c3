//! Parts of sentences from texts of others.

/// Longest part of a foreign message in a sentence, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// The start of a message, on one line.
pub(crate) fn short(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// The text between two texts.
pub(crate) fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}
