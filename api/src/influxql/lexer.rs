//! Words of InfluxQL, with where they stand.

use super::NotUnderstood;

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Not quoted: a keyword, or a name.
    Name(String),
    /// `"quoted"`: a name.
    Quoted(String),
    /// `'quoted'`
    Text(String),
    /// Digits only.
    Number(u64),
    /// Nanoseconds.
    Duration(u64),
    /// `( ) , * = != <> < <= > >= + - ;` and whatever else nobody understands.
    Sign(&'static str),
    Unknown(char),
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) word: Word,
    /// The character it begins at, from 1.
    at: usize,
    /// As it was written.
    written: String,
}

impl Placed {
    pub(super) fn not_understood(&self, expected: &'static str) -> NotUnderstood {
        NotUnderstood {
            at: self.at,
            word: self.written.chars().take(64).collect(),
            expected,
        }
    }
}

/// Longer ones before those that they begin with.
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

/// All words of `text`; the last is [`Word::End`].
///
/// # Errors
/// A quotation that does not end, a number that is too large, or letters behind one that are no unit of time.
pub(super) fn words(text: &str) -> Result<Vec<Placed>, NotUnderstood> {
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
                place(Word::Unknown(first), rest).not_understood("the quotation does not end")
            })?,
            ('0'..='9', _) => {
                let length = run(rest, char::is_alphanumeric);
                let written = rest.get(..length).unwrap_or_default();
                let wrong = "a number, or a time like 30m";
                let word = number(written)
                    .ok_or_else(|| place(Word::End, written).not_understood(wrong))?;
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

/// How many bytes the first characters have that are so.
fn run(text: &str, is_so: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_so(c)).unwrap_or(text.len())
}

/// With `\"`, `\'`, `\\` and `\n` for what cannot stand there otherwise, and how many bytes it is long.
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

/// `12`, or `1h30m` as the sum of its parts.
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
