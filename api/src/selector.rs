//! Label selectors in Kubernetes' syntax (`a=b,c!=d,e in (x,y),f notin (z),g,!h`), over annotations
//! and facts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::schema::text_schema;

/// Error of parsing a [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is longer than 4 KiB.
    #[error("selector: at most {MAX_SELECTOR_BYTES} bytes")]
    Length,
    /// More than 64 requirements.
    #[error("selector: at most {MAX_REQUIREMENTS} requirements")]
    Requirements,
    /// Text without meaning; its first 60 characters.
    #[error("selector: {0:?} is not understood")]
    Syntax(String),
}

/// Maximum length of a selector in bytes, and of its requirements.
const MAX_SELECTOR_BYTES: usize = 4096;
const MAX_REQUIREMENTS: usize = 64;

/// Requirements, combined by AND.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// Also matches a missing key, as in Kubernetes.
    NotIn(Vec<String>),
}

text_schema!(Selector, ".*", 4096);

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(SelectorError::Length);
        }
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = end_of_requirement(rest);
            let (one, more) = rest.split_at(end);
            requirements.push(requirement(one.trim())?);
            rest = match more.strip_prefix(',') {
                None => more,
                Some(more) if more.trim().is_empty() => return Err(wrong(text)),
                Some(more) => more.trim_start(),
            };
        }
        if requirements.len() > MAX_REQUIREMENTS {
            return Err(SelectorError::Requirements);
        }
        let text = text.trim().to_owned();
        Ok(Selector { text, requirements })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Selector {
    type Error = SelectorError;

    fn try_from(text: String) -> Result<Self, SelectorError> {
        text.parse()
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> String {
        selector.text
    }
}

impl Selector {
    /// True if it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True if all requirements hold; `value` returns the value of a key.
    pub fn matches<V: AsRef<str>>(&self, value: impl Fn(&str) -> Option<V>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value(&requirement.key);
            let value = value.as_ref().map(AsRef::as_ref);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Missing => value.is_none(),
                Test::In(values) => value.is_some_and(|it| values.iter().any(|one| one == it)),
                Test::NotIn(values) => value.is_none_or(|it| values.iter().all(|one| one != it)),
            }
        })
    }
}

fn wrong(text: &str) -> SelectorError {
    let text: String = text.chars().take(60).collect();
    SelectorError::Syntax(text)
}

/// A comma inside parentheses is part of the requirement.
fn end_of_requirement(text: &str) -> usize {
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => return at,
            _ => {}
        }
    }
    text.len()
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    let of = |key: &str, test: Test| {
        Ok(Requirement {
            key: checked(key, text)?,
            test,
        })
    };
    if let Some(key) = text.strip_prefix('!') {
        return of(key.trim(), Test::Missing);
    }
    if let Some(set) = text.strip_suffix(')') {
        let (head, values) = set.split_once('(').ok_or_else(|| wrong(text))?;
        if values.contains(['(', ')']) {
            return Err(wrong(text));
        }
        let values = values.split(',').map(|it| it.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => of(key, Test::In(values)),
            (Some(key), Some("notin"), None) => of(key, Test::NotIn(values)),
            _ => Err(wrong(text)),
        };
    }
    for (sign, not) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = text.split_once(sign) {
            if value.contains(['(', ')']) {
                return Err(wrong(text));
            }
            let values = vec![value.trim().to_owned()];
            let test = if not {
                Test::NotIn(values)
            } else {
                Test::In(values)
            };
            return of(key.trim(), test);
        }
    }
    of(text, Test::Exists)
}

fn checked(key: &str, text: &str) -> Result<String, SelectorError> {
    let stranger = |c: char| c.is_whitespace() || "!=(),".contains(c);
    if key.is_empty() || key.contains(stranger) {
        return Err(wrong(text));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests;
