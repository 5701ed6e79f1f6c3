//! Metrics and labels that PromQL expressions name.
//!
//! This is no parser of PromQL: promtool checks the syntax. It finds names, so that a renamed metric leaves no dead query.

use std::collections::{BTreeMap, BTreeSet};

/// Words that are no metric.
const KEYWORDS: [&str; 17] = [
    "and",
    "or",
    "unless",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "inf",
    "nan",
    "start",
    "end",
    "atan2",
    "le",
];
/// Words before a list of labels in parentheses.
const BEFORE_LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// Names in one expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryNames {
    /// Metrics with the labels of their matchers.
    pub(crate) metrics: BTreeMap<String, BTreeSet<String>>,
    /// Labels of groups and joins.
    pub(crate) labels: BTreeSet<String>,
}

impl QueryNames {
    pub(crate) fn of(expression: &str) -> Self {
        let mut names = QueryNames::default();
        let tokens = tokens(expression);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            let next = tokens.get(at).map(String::as_str);
            if BEFORE_LABELS.contains(&token.as_str()) && next == Some("(") {
                while let Some(inside) = tokens.get(at).filter(|it| *it != ")") {
                    if is_name(inside) {
                        names.labels.insert(inside.clone());
                    }
                    at += 1;
                }
            } else if token == "[" {
                while tokens.get(at).is_some_and(|it| it != "]") {
                    at += 1;
                }
            } else if is_name(token) && !is_word(token, next) {
                let matched = names.metrics.entry(token.clone()).or_default();
                if next == Some("{") {
                    while let Some(inside) = tokens.get(at).filter(|it| *it != "}") {
                        if is_name(inside) {
                            matched.insert(inside.clone());
                        }
                        at += 1;
                    }
                }
            }
        }
        names
    }
}

/// True for a keyword, a function, and an aggregation with its labels in front.
fn is_word(token: &str, next: Option<&str>) -> bool {
    KEYWORDS.contains(&token) || matches!(next, Some("(" | "by" | "without"))
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Names, numbers and single signs; texts in quotes are left out.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.chars().peekable();
    while let Some(first) = rest.next() {
        if first == '"' || first == '\'' {
            while let Some(inside) = rest.next().filter(|it| *it != first) {
                if inside == '\\' {
                    rest.next();
                }
            }
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let mut word = first.to_string();
            while let Some(more) = rest.next_if(|c| c.is_ascii_alphanumeric() || "_:.".contains(*c))
            {
                word.push(more);
            }
            tokens.push(word);
        } else if !first.is_whitespace() {
            tokens.push(first.to_string());
        }
    }
    tokens
}

#[test]
fn names_of_an_expression_are_found() {
    let names = QueryNames::of(
        r#"histogram_quantile(0.9, sum by (le, phase) (rate(a_bucket{x=~"b}|c", y!="d"}[5m])))
            > 3 * max without (z) (e) and on (job) f offset 5m - time()"#,
    );
    let set = |names: &[&str]| {
        names
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(names.labels, set(&["le", "phase", "z", "job"]));
    let metrics = [
        ("a_bucket", set(&["x", "y"])),
        ("e", set(&[])),
        ("f", set(&[])),
    ];
    let metrics = metrics.map(|(name, labels)| (name.to_owned(), labels));
    assert_eq!(names.metrics, metrics.into());
}
