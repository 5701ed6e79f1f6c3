//! Parser of templates.

use serde_json::Value;

use super::{Compare, Path, PathNode, Step};

type Result<T> = std::result::Result<T, String>;

/// Parses a template.
///
/// # Errors
/// A sentence about the first mistake.
pub(super) fn template(text: &str) -> Result<Vec<PathNode>> {
    if !text.contains('{') {
        return Err("a template has paths in braces, like {.id}".to_owned());
    }
    let mut reader = PathReader { left: text };
    let nodes = reader.nodes(false)?;
    Ok(nodes)
}

struct PathReader<'a> {
    left: &'a str,
}

impl<'a> PathReader<'a> {
    /// Parses nodes until the end of the text, or until `{end}` in a range.
    fn nodes(&mut self, in_range: bool) -> Result<Vec<PathNode>> {
        let mut nodes = Vec::new();
        loop {
            let (text, rest) = self.left.split_once('{').unwrap_or((self.left, ""));
            let is_last = text.len() == self.left.len();
            if !text.is_empty() {
                nodes.push(PathNode::Text(text.to_owned()));
            }
            self.left = rest;
            if is_last {
                return match in_range {
                    true => Err("a {range} has no {end}".to_owned()),
                    false => Ok(nodes),
                };
            }
            self.blank();
            if self.word("end") {
                self.close()?;
                return match in_range {
                    true => Ok(nodes),
                    false => Err("an {end} has no {range}".to_owned()),
                };
            }
            let node = self.node()?;
            nodes.push(node);
        }
    }

    /// Parses a node in braces, including the closing brace.
    fn node(&mut self) -> Result<PathNode> {
        if self.word("range") {
            self.blank();
            let path = self.path()?;
            self.close()?;
            return Ok(PathNode::Range(path, self.nodes(true)?));
        }
        let node = match self.quoted()? {
            Some(text) => PathNode::Text(text),
            None => PathNode::Values(self.path()?),
        };
        self.close()?;
        Ok(node)
    }

    fn close(&mut self) -> Result<()> {
        self.blank();
        self.expect("}")
    }

    fn path(&mut self) -> Result<Path> {
        let from_root = self.taken("$");
        let named = from_root || self.taken("@");
        // A leading dot may stand alone: `{.}` is the value itself, `{.[0]}` an item of it.
        let after_dot = self.left.strip_prefix('.');
        let bare = after_dot.filter(|rest| rest.starts_with(['[', '}', ' ', ')']));
        self.left = bare.unwrap_or(self.left);
        let mut steps = Vec::new();
        loop {
            if self.taken("..") {
                steps.push(Step::Deep);
                if !self.left.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.taken(".") {
                steps.push(self.field()?);
            } else if self.taken("[") {
                steps.push(self.bracket()?);
            } else if steps.is_empty() && !named && bare.is_none() {
                return Err(self.unexpected());
            } else {
                return Ok(Path { from_root, steps });
            }
        }
    }

    fn field(&mut self) -> Result<Step> {
        if self.taken("*") {
            return Ok(Step::Every);
        }
        let mut name = String::new();
        let mut chars = self.left.char_indices();
        let mut end = self.left.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' | ']' | '{' | '}' | '(' | ')' | ' ' | '=' | '!' | '<' | '>' | '"'
                | '\'' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.left = self.left.get(end..).unwrap_or_default();
        Ok(Step::Field(name))
    }

    /// Parses a step after its opening bracket.
    fn bracket(&mut self) -> Result<Step> {
        self.blank();
        let step = if self.taken("*") {
            Step::Every
        } else if self.taken("?(") {
            self.condition()?
        } else if let Some(name) = self.quoted()? {
            Step::Field(name)
        } else {
            let from = self.number()?;
            match (self.taken(":"), from) {
                (true, from) => Step::Slice(from, self.number()?),
                (false, Some(at)) => Step::Item(at),
                (false, None) => return Err(self.unexpected()),
            }
        };
        self.blank();
        self.expect("]")?;
        Ok(step)
    }

    fn condition(&mut self) -> Result<Step> {
        self.blank();
        let path = self.path()?;
        self.blank();
        let known = [
            ("==", Compare::Equal),
            ("!=", Compare::Unequal),
            ("<=", Compare::NoMore),
            (">=", Compare::NoLess),
            ("<", Compare::Less),
            (">", Compare::More),
        ];
        let compare = known.into_iter().find(|(sign, _)| self.taken(sign));
        let test = match compare {
            None => None,
            Some((_, compare)) => {
                self.blank();
                Some((compare, self.literal()?))
            }
        };
        self.blank();
        self.expect(")")?;
        Ok(Step::Where(path, test))
    }

    fn literal(&mut self) -> Result<Value> {
        if let Some(text) = self.quoted()? {
            return Ok(text.into());
        }
        let end = self.left.find([')', ' ']).unwrap_or(self.left.len());
        let (word, rest) = self.left.split_at_checked(end).unwrap_or((self.left, ""));
        let value = serde_json::from_str(word).map_err(|_| self.unexpected())?;
        self.left = rest;
        Ok(value)
    }

    fn number(&mut self) -> Result<Option<i64>> {
        let is_digit = |c: char| c.is_ascii_digit() || c == '-';
        let end = self.left.find(|c| !is_digit(c)).unwrap_or(self.left.len());
        let (digits, rest) = self.left.split_at_checked(end).unwrap_or((self.left, ""));
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().map_err(|_| self.unexpected())?;
        self.left = rest;
        Ok(Some(number))
    }

    /// Parses a text in single or double quotes, if there is one.
    fn quoted(&mut self) -> Result<Option<String>> {
        let Some(quote) = self.left.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut chars = self.left.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                })),
                c if c == quote => {
                    self.left = self.left.get(at + 1..).unwrap_or_default();
                    return Ok(Some(text));
                }
                c => text.push(c),
            }
        }
        Err(format!("a text in {quote} does not end"))
    }

    fn blank(&mut self) {
        self.left = self.left.trim_start();
    }

    fn taken(&mut self, sign: &str) -> bool {
        match self.left.strip_prefix(sign) {
            Some(rest) => {
                self.left = rest;
                true
            }
            None => false,
        }
    }

    /// Consumes a word that is not the prefix of a longer one.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.left.strip_prefix(word);
        let rest = rest.filter(|rest| rest.starts_with([' ', '}', '.', '[']));
        if let Some(rest) = rest {
            self.left = rest;
        }
        rest.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.taken(sign) {
            return Ok(());
        }
        Err(self.unexpected())
    }

    fn unexpected(&self) -> String {
        let near: String = self.left.chars().take(20).collect();
        match near.is_empty() {
            true => "the template ends in the middle of a path".to_owned(),
            false => format!("this cannot be read at {near:?}"),
        }
    }
}
