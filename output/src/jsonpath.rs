//! `-o jsonpath=TEMPLATE`: the common subset of kubectl's templates. `{.a.b}`, `{['a.b']}`, `{[0]}`, `{[-1]}`, `{[1:3]}`,
//! `{[*]}`, `{.*}`, `{..name}`, `{[?(@.a == "b")]}` (with ==, !=, <, <=, >, >=, or without an operator for existence),
//! `{range P}...{end}`, `{"\n"}`. Text outside of braces is printed unchanged. A missing value prints nothing.

mod parser;

use std::{cmp::Ordering, str::FromStr};

use serde_json::Value;

/// Parsed template of `-o jsonpath`.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<PathNode>);

#[derive(Debug, Clone, PartialEq)]
enum PathNode {
    Text(String),
    Values(Path),
    Range(Path, Vec<PathNode>),
}

/// Path to values, from the current item or from the root.
#[derive(Debug, Clone, PartialEq)]
struct Path {
    from_root: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// Item of a list; negative indexes count from the end.
    Item(i64),
    Slice(Option<i64>, Option<i64>),
    Every,
    /// The value and all its descendants.
    Deep,
    Where(Path, Option<(Compare, Value)>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Compare {
    Equal,
    Unequal,
    Less,
    NoMore,
    More,
    NoLess,
}

impl FromStr for Template {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parser::template(text).map(Template)
    }
}

impl Template {
    /// Renders the template for a value, with a line end at the end.
    pub(crate) fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        render(&self.0, value, value, &mut out);
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out
    }

    /// Values of the paths outside of ranges.
    pub(crate) fn values(&self, value: &Value) -> Vec<String> {
        let paths = self.0.iter().filter_map(|node| match node {
            PathNode::Values(path) => Some(path),
            PathNode::Text(_) | PathNode::Range(..) => None,
        });
        let found = paths.flat_map(|path| path.of(value, value));
        found.map(plain).collect()
    }
}

fn render(nodes: &[PathNode], root: &Value, at: &Value, out: &mut String) {
    for node in nodes {
        match node {
            PathNode::Text(text) => out.push_str(text),
            PathNode::Values(path) => {
                let found: Vec<String> = path.of(root, at).into_iter().map(plain).collect();
                out.push_str(&found.join(" "));
            }
            PathNode::Range(path, inner) => {
                for item in path.of(root, at) {
                    render(inner, root, item, out);
                }
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Path {
    fn of<'a>(&self, root: &'a Value, at: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![if self.from_root { root } else { at }];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.take(root, value, &mut next);
            }
            found = next;
        }
        found
    }
}

impl Step {
    fn take<'a>(&self, root: &'a Value, value: &'a Value, found: &mut Vec<&'a Value>) {
        match (self, value) {
            (Step::Field(name), Value::Object(fields)) => found.extend(fields.get(name)),
            (Step::Item(at), Value::Array(items)) => {
                found.extend(place(*at, items.len()).and_then(|at| items.get(at)));
            }
            (Step::Slice(from, to), Value::Array(items)) => {
                let end = |at: Option<i64>, default: usize| match at {
                    None => default,
                    Some(at) => {
                        place(at, items.len()).unwrap_or(if at < 0 { 0 } else { items.len() })
                    }
                };
                let (from, to) = (end(*from, 0), end(*to, items.len()));
                found.extend(items.get(from..to).unwrap_or_default());
            }
            (Step::Every, Value::Array(items)) => found.extend(items),
            (Step::Every, Value::Object(fields)) => found.extend(fields.values()),
            (Step::Deep, value) => deep(value, found),
            (Step::Where(path, test), Value::Array(items)) => {
                found.extend(
                    items
                        .iter()
                        .filter(|item| holds(path, test.as_ref(), root, item)),
                );
            }
            _ => {}
        }
    }
}

/// Position of an index in a list of length `len`; negative indexes count from the end.
fn place(at: i64, len: usize) -> Option<usize> {
    let from_start = usize::try_from(at).ok();
    let from_end = || len.checked_sub(usize::try_from(at.checked_neg()?).ok()?);
    from_start.or_else(from_end).filter(|at| *at <= len)
}

fn deep<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| deep(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| deep(field, found)),
        _ => {}
    }
}

fn holds(path: &Path, test: Option<&(Compare, Value)>, root: &Value, item: &Value) -> bool {
    let found = path.of(root, item);
    let Some((compare, wanted)) = test else {
        return !found.is_empty();
    };
    found.into_iter().any(|value| {
        let order = match (value, wanted) {
            (Value::Number(one), Value::Number(other)) => one.as_f64().partial_cmp(&other.as_f64()),
            (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
            (one, other) => (one == other).then_some(Ordering::Equal),
        };
        match compare {
            Compare::Equal => order == Some(Ordering::Equal),
            Compare::Unequal => order != Some(Ordering::Equal),
            Compare::Less => order == Some(Ordering::Less),
            Compare::NoMore => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Compare::More => order == Some(Ordering::Greater),
            Compare::NoLess => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_render_as_kubectl_does() {
        let value = json!([
            { "id": "c-a", "facts": { "a.b": "1", "cloud-region": "eu" }, "status": { "state": "Lost" }, "n": 3 },
            { "id": "c-b", "facts": {}, "status": { "state": "Connected" }, "n": 10, "list": [1, 2, 3] },
        ]);
        for (template, expected) in [
            ("{[*].id}", "c-a c-b"),
            ("{.[0].id}", "c-a"),
            ("{$[-1].id}", "c-b"),
            ("{[0].facts.cloud-region}", "eu"),
            ("{[0].facts['a.b']}{[0].facts.a\\.b}", "11"),
            ("{[1].list}", "[1,2,3]"),
            ("{[1].list[1:]} {[1].list[:-1]}", "2 3 1 2"),
            ("{..state}", "Lost Connected"),
            ("{[0].facts.*}", "1 eu"),
            ("{[?(@.status.state == \"Lost\")].id}", "c-a"),
            ("{[?(@.status.state!='Lost')].id}", "c-b"),
            ("{[?(@.n >= 4)].id}{[?(@.list)].id}", "c-bc-b"),
            (
                "{range [*]}{.id}{\"\\t\"}{@.n}{'\\n'}{end}done",
                "c-a\t3\nc-b\t10\ndone",
            ),
            ("{range [*]}{range .list[*]}<{@}>{end}{end}", "<1><2><3>"),
            ("none: {.none.at.all}{[7].id}", "none: "),
        ] {
            let read: Template = template.parse().unwrap();
            assert_eq!(read.render(&value), format!("{expected}\n"), "{template}");
        }
    }

    #[test]
    fn invalid_template_is_reported() {
        for template in [
            ".id",
            "{.id",
            "{range .a}",
            "{end}",
            "{.a[}",
            "{[?(@.a ==)]}",
            "{[x]}",
            "{\"a}",
            "{if}",
            "{.a}}{",
        ] {
            assert!(template.parse::<Template>().is_err(), "{template}");
        }
    }
}
