//! Codes of deliveries that no test names. A test shows that the product makes a code, with a sentence that helps.

use crate::sources::{Kind, Source};

const CODES_FILE: &str = "api/src/code.rs";
/// First digit of the checked codes.
const CHECKED_GROUP: &str = "6";
/// Begin of the tests in a file with code of the product.
const INLINE_TESTS: &str = "#[cfg(test)]\nmod tests {";

/// A declared code.
#[derive(Debug, PartialEq, Eq)]
struct DeclaredCode<'a> {
    line: usize,
    name: &'a str,
    number: &'a str,
}

pub(crate) fn check(files: &[Source]) -> Vec<String> {
    let declared = files.iter().find(|file| file.path == CODES_FILE);
    let declared = declared.map_or(Vec::new(), |file| declared_in(&file.text));
    let tests: Vec<&str> = files.iter().filter_map(test_code).collect();
    let untested = declared
        .iter()
        .filter(|code| !tests.iter().any(|text| names(text, code)));
    untested
        .map(|DeclaredCode { line, name, number }| {
            format!("{CODES_FILE}:{line}: no test names {name} (FL-{number})")
        })
        .collect()
}

/// Checked codes of the table: its lines are `Name = 6101, 404, "...";`.
fn declared_in(text: &str) -> Vec<DeclaredCode<'_>> {
    let lines = (1..).zip(text.lines());
    lines
        .filter_map(|(line, text)| {
            let (name, rest) = text.trim_start().split_once(" = ")?;
            let (number, _) = rest.split_once(',')?;
            let is_code = number.len() == 4 && number.starts_with(CHECKED_GROUP);
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric());
            (is_code && is_name).then_some(DeclaredCode { line, name, number })
        })
        .collect()
}

/// Tests of a file; none without any.
fn test_code(file: &Source) -> Option<&str> {
    if file.kind != Kind::Rust {
        return None;
    }
    let mut parts = file.path.split('/');
    if file.path.starts_with("e2e/") || parts.any(|it| it == "tests" || it == "tests.rs") {
        return Some(&file.text);
    }
    file.text.split_once(INLINE_TESTS).map(|(_, tests)| tests)
}

fn names(text: &str, code: &DeclaredCode<'_>) -> bool {
    let DeclaredCode { name, number, .. } = code;
    ["Code::", "C::"]
        .iter()
        .any(|path| has_word(text, &format!("{path}{name}")))
        || has_word(text, &format!("FL-{number}"))
}

/// True if the text has the word, and no longer one that begins with it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let after = text[at + word.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "codes! {\n    Lost = 1402, 503, \"a\", \"b\";\n    OtherLog = 6502, 409, \"a\", \"b\";\n}\n";

    fn file(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            kind: Kind::Rust,
            group: "a".to_owned(),
        }
    }

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&[file(CODES_FILE, TABLE), file(path, text)])
    }

    #[test]
    fn code_without_a_test_is_found() {
        let expected = ["api/src/code.rs:3: no test names OtherLog (FL-6502)"];
        for (path, text) in [
            ("a/src/lib.rs", "return Code::OtherLog;"),
            ("a/src/tests.rs", "Code::OtherLogs, RunRefusal::OtherLog"),
            ("a/src/lib.rs", "// FL-6502\n#[cfg(test)]\nmod tests;\n"),
        ] {
            assert_eq!(findings(path, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn tests_name_codes_by_name_or_number() {
        for (path, text) in [
            ("a/src/tests/logs.rs", "assert_eq!(code, Code::OtherLog);"),
            ("a/tests/modules/runs.rs", "(C::OtherLog, 1)"),
            (
                "a/src/tests.rs",
                "assert!(reason.starts_with(\"FL-6502\"));",
            ),
            (
                "a/src/lib.rs",
                "#[cfg(test)]\nmod tests {\n    // Code::OtherLog\n}\n",
            ),
            ("e2e/src/runs.rs", "expect(Code::OtherLog)"),
        ] {
            assert_eq!(findings(path, text), [""; 0], "{path}: {text}");
        }
    }
}
