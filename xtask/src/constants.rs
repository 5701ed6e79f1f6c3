//! Numeric constants of one word, which say neither quantity nor unit.

use crate::sources::{Kind, Source};

const NUMERIC_TYPES: [&str; 16] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "Duration",
    "std::time::Duration",
];

pub(crate) fn check(file: &Source) -> Vec<String> {
    if file.kind != Kind::Rust {
        return Vec::new();
    }
    let lines = (1..).zip(file.text.lines());
    lines
        .filter_map(|(at, line)| {
            let name = one_word(line)?;
            Some(format!(
                "{}:{at}: constant {name} says no quantity and unit",
                file.path
            ))
        })
        .collect()
}

/// Name of the numeric constant that a line declares, if it is one word.
fn one_word(line: &str) -> Option<&str> {
    let (before, declared) = line.split_once("const ")?;
    if before.contains('"') || !(before.is_empty() || before.ends_with([' ', '('])) {
        return None;
    }
    let (name, rest) = declared.split_once(": ")?;
    let (numeric, _) = rest.split_once([' ', ';', '='])?;
    let is_word = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    (is_word && NUMERIC_TYPES.contains(&numeric)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bare_word_is_found() {
        assert_eq!(one_word("const MOST: usize = 32;"), Some("MOST"));
        assert_eq!(
            one_word("    pub(crate)\x20const REST: u8 = 1;"),
            Some("REST")
        );
    }

    #[test]
    fn quantities_and_other_types_pass() {
        assert_eq!(one_word("const MAX_GROUPS: usize = 32;"), None);
        assert_eq!(one_word("const NAME: &str = \"a\";"), None);
        assert_eq!(one_word("struct Ring<const N: usize>;"), None);
    }
}
