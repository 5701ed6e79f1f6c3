//! Splits a text into plain text and references to variables.

use super::name::{Variable, is_name_byte};

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Text that stays.
    Text(&'a str),
    /// A reference to a variable.
    Reference {
        /// Full name, like `vars.replicas`.
        name: &'a str,
        /// Text behind `:-`.
        default: Option<&'a str>,
    },
    /// A reference with this name and another reference in its default.
    Nested(&'a str),
}

/// Parts of a text, in order.
pub(super) struct Parts<'a> {
    rest: &'a str,
    /// Start of the rest that was read as text already.
    literal: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parts {
            rest: text,
            literal: 0,
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.literal = 0;
        head
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let (_, open) = self.rest.split_at(self.literal);
            let Some(at) = open.find("${").map(|at| at + self.literal) else {
                return Some(Part::Text(self.take(self.rest.len())));
            };
            let (before, reference) = self.rest.split_at(at);
            let Some((part, length)) = parse_reference(reference) else {
                self.literal = at + 2;
                continue;
            };
            if before.ends_with('$') && self.literal < at {
                // The first `$` is dropped, and the reference is text.
                if before.len() > 1 {
                    return Some(Part::Text(self.take_escaped(at, length)));
                }
                self.take(1);
                self.literal = length;
                continue;
            }
            if at > 0 {
                return Some(Part::Text(self.take(at)));
            }
            self.take(length);
            return Some(part);
        }
    }
}

impl<'a> Parts<'a> {
    /// Text before an escape; the rest starts at the escaped reference.
    fn take_escaped(&mut self, at: usize, length: usize) -> &'a str {
        let text = self.take(at - 1);
        self.take(1);
        self.literal = length;
        text
    }
}

/// The reference at the start of a text with `${`, and its length.
fn parse_reference(text: &str) -> Option<(Part<'_>, usize)> {
    let inner = text.strip_prefix("${")?;
    let end = inner.bytes().position(|byte| !is_name_byte(byte))?;
    let (name, rest) = inner.split_at(end);
    Variable::parse(name)?;
    let length = 2 + end;
    if rest.starts_with('}') {
        let default = None;
        return Some((Part::Reference { name, default }, length + 1));
    }
    let rest = rest.strip_prefix(":-")?;
    let end = rest.find(['}', '\n'])?;
    let (default, close) = rest.split_at(end);
    if default.contains("${") {
        return Some((Part::Nested(name), length + 2 + end));
    }
    let default = Some(default);
    let length = length + 2 + end + 1;
    close
        .starts_with('}')
        .then_some((Part::Reference { name, default }, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part<'_> {
        Part::Text(text)
    }

    fn reference<'a>(name: &'a str, default: Option<&'a str>) -> Part<'a> {
        Part::Reference { name, default }
    }

    #[test]
    fn references_are_split_from_text() {
        let parts = |text| Parts::new(text).collect::<Vec<_>>();
        assert_eq!(parts(""), []);
        assert_eq!(
            parts("a${vars.x}b${cluster.facts.kubernetes.version:-1.30}"),
            [
                text("a"),
                reference("vars.x", None),
                text("b"),
                reference("cluster.facts.kubernetes.version", Some("1.30")),
            ]
        );
        let name = "cluster.annotations.example.org/site";
        assert_eq!(
            parts("${cluster.annotations.example.org/site:-}"),
            [reference(name, Some(""))]
        );
        assert_eq!(
            parts("${vars.x:-${vars.y}}").first(),
            Some(&Part::Nested("vars.x"))
        );
        assert_eq!(
            parts("${HOME:-${vars.y}}"),
            [text("${HOME:-"), reference("vars.y", None), text("}")]
        );
    }

    #[test]
    fn other_text_stays() {
        for other in [
            "$",
            "${",
            "${}",
            "${HOME}",
            "$HOME",
            "$$",
            "$${HOME}",
            "${vars}",
            "${vars.}",
            "${vars.x",
            "${vars.x:-y",
            "${vars.x:-y\nz}",
            "${vars.x-y z}",
            "${ vars.x }",
            "${cluster.color}",
            "${cluster.ids}",
            "${cluster.facts.}",
            "${Vars.x}",
            "$(vars.x)",
            "{vars.x}",
            "ä${ö}",
        ] {
            let parts: Vec<_> = Parts::new(other).collect();
            assert_eq!(parts, [text(other)], "{other}");
        }
    }

    #[test]
    fn two_dollars_escape_a_reference() {
        let joined = |source| {
            let parts: Vec<_> = Parts::new(source).collect();
            assert!(
                parts.iter().all(|it| matches!(it, Part::Text(_))),
                "{source}: {parts:?}"
            );
            let texts = parts.iter().map(|it| match it {
                Part::Text(text) => *text,
                _ => "",
            });
            texts.collect::<String>()
        };
        assert_eq!(joined("$${vars.x}"), "${vars.x}");
        assert_eq!(joined("a$${vars.x}b"), "a${vars.x}b");
        assert_eq!(joined("$$${vars.x}"), "$${vars.x}");
        assert_eq!(joined("$${vars.x}$${vars.y:-1}"), "${vars.x}${vars.y:-1}");
        assert_eq!(joined("${A}$${vars.x}"), "${A}${vars.x}");
        let after: Vec<_> = Parts::new("$${vars.x}${vars.y}").collect();
        assert_eq!(after, [text("${vars.x}"), reference("vars.y", None)]);
    }
}
