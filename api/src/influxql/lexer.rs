//! Lexer of InfluxQL: words with their positions.

use super::query::QueryError;

/// One token of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Unquoted keyword or name.
    Name(String),
    /// Name in double quotes.
    Quoted(String),
    /// Text in single quotes.
    Text(String),
    /// Unsigned number.
    Number(u64),
    /// Duration in nanoseconds.
    Duration(u64),
    /// One of [`SIGNS`].
    Sign(&'static str),
    /// Unsupported character.
    Unknown(char),
    /// End of the query.
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) word: Word,
    /// Position of the first character, starting at 1.
    at: usize,
    /// Source text of the word.
    written: String,
}

impl Placed {
    pub(super) fn error(&self, expected: &'static str) -> QueryError {
        QueryError {
            at: self.at,
            word: self.written.chars().take(64).collect(),
            expected,
        }
    }
}

/// Operators and punctuation; an operator stands before its own prefixes.
const SIGNS: [&str; 14] = [
    "!=", "<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "*", "+", "-", ";",
];
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("u", 1_000),
    ("µ", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// Splits `text` into words; the last one is [`Word::End`].
///
/// # Errors
/// An unterminated quotation, a number that is too large, or a number with an unknown unit.
pub(super) fn words(text: &str) -> Result<Vec<Placed>, QueryError> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let before = text.len() - rest.len();
        let at = text
            .get(..before)
            .map_or(0, |before| before.chars().count())
            + 1;
        let place = |word, written: &str| Placed {
            word,
            at,
            written: written.to_owned(),
        };
        let Some(first) = rest.chars().next() else {
            words.push(place(Word::End, ""));
            return Ok(words);
        };
        let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
        let (word, length) = match (first, sign) {
            ('"' | '\'', _) => quoted(rest, first).ok_or_else(|| {
                place(Word::Unknown(first), rest).error("the quotation does not end")
            })?,
            ('0'..='9', _) => {
                let length = run(rest, char::is_alphanumeric);
                let written = rest.get(..length).unwrap_or_default();
                let wrong = "expected a number, or a duration like 30m";
                let word = number(written).ok_or_else(|| place(Word::End, written).error(wrong))?;
                (word, length)
            }
            (_, Some(sign)) => (Word::Sign(sign), sign.len()),
            _ if first.is_alphabetic() || first == '_' => {
                let length = run(rest, |c| c.is_alphanumeric() || c == '_');
                (
                    Word::Name(rest.get(..length).unwrap_or_default().to_owned()),
                    length,
                )
            }
            _ => (Word::Unknown(first), first.len_utf8()),
        };
        let (written, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        words.push(place(word, written));
        rest = behind;
    }
}

/// Length in bytes of the leading characters that fulfil the predicate.
fn run(text: &str, predicate: impl Fn(char) -> bool) -> usize {
    text.find(|c| !predicate(c)).unwrap_or(text.len())
}

/// Parses a quotation with the escapes `\"`, `\'`, `\\` and `\n`; returns the word and its length in bytes.
fn quoted(text: &str, quote: char) -> Option<(Word, usize)> {
    let mut inside = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                'n' => inside.push('\n'),
                other @ ('"' | '\'' | '\\') => inside.push(other),
                other => inside.extend(['\\', other]),
            },
            c if c == quote => {
                let word = match quote {
                    '"' => Word::Quoted(inside),
                    _ => Word::Text(inside),
                };
                return Some((word, at + 1));
            }
            c => inside.push(c),
        }
    }
    None
}

/// Parses a number like `12` or a duration like `1h30m`.
fn number(text: &str) -> Option<Word> {
    if let Ok(number) = text.parse() {
        return Some(Word::Number(number));
    }
    let mut rest = text;
    let mut nanos = 0_u64;
    while !rest.is_empty() {
        let (digits, behind) = rest.split_at(run(rest, |c| c.is_ascii_digit()));
        let (unit, behind) = behind.split_at(run(behind, char::is_alphabetic));
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let part = digits.parse::<u64>().ok()?.checked_mul(factor)?;
        nanos = nanos.checked_add(part)?;
        rest = behind;
    }
    Some(Word::Duration(nanos))
}
