//! Checks `docs/lieutenant.md` against the tests. Each list item has exactly one test, named after
//! its bold words, in the module of its section; no test in these modules lacks an item.

use std::{collections::BTreeMap, process::Command};

const DOCUMENT: &str = include_str!("../../../docs/lieutenant.md");
const PARTS: [&str; 2] = ["keep", "better"];

/// Bold words as a test name.
fn name(words: &str) -> String {
    let plain = words.to_lowercase().replace('\'', "");
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Number of items per promise, as `part::name`.
fn promises(document: &str) -> BTreeMap<String, usize> {
    let mut promises = BTreeMap::new();
    let mut part = String::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            part = name(heading);
        }
        if let Some(promise) = line.strip_prefix("- ") {
            let bold = promise
                .strip_prefix("**")
                .and_then(|it| it.split_once("**"));
            let (bold, _) = bold.unwrap_or_else(|| panic!("no guarantee in this line: {line}"));
            *promises
                .entry(format!("{part}::{}", name(bold)))
                .or_default() += 1;
        }
    }
    promises
}

/// Number of tests per promise, as `part::name`, in any module of the part.
fn tests() -> BTreeMap<String, usize> {
    let this = std::env::current_exe().unwrap();
    let listed = Command::new(this)
        .args(["--list", "--format", "terse"])
        .output()
        .unwrap();
    let mut tests = BTreeMap::new();
    for line in String::from_utf8(listed.stdout).unwrap().lines() {
        let path: Vec<_> = line.trim_end_matches(": test").split("::").collect();
        if let [part, .., name] = path.as_slice()
            && PARTS.contains(part)
        {
            *tests.entry(format!("{part}::{name}")).or_default() += 1;
        }
    }
    tests
}

#[test]
fn every_promise_has_its_test_and_every_test_its_promise() {
    let (promises, tests) = (promises(DOCUMENT), tests());
    let of = |part: &str| promises.keys().filter(|it| it.starts_with(part)).count();
    assert!(
        PARTS.map(of).iter().all(|count| *count > 20),
        "{promises:?}"
    );
    let names = promises.keys().chain(tests.keys());
    let wrong = names.filter_map(|name| {
        let [lines, tests] =
            [&promises, &tests].map(|of| of.get(name).copied().unwrap_or_default());
        let told = format!("{name} has {lines} lines and {tests} tests");
        ((lines, tests) != (1, 1)).then_some(told)
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_line_is_named_after_its_bold_words() {
    let document = "## Keep\n\n- **A `200` isn't 201:** never.\n- **Again.**\n## Better\n- **Again.**\n- **Again.**\n";
    let expected = [
        ("better::again", 2),
        ("keep::a_200_isnt_201", 1),
        ("keep::again", 1),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(promises(document), BTreeMap::from(expected));
}
