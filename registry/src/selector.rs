//! Label selectors in Kubernetes' syntax (`a=b,c!=d,e in (x,y),f notin (z),g,!h`), over annotations
//! and facts.

use fairlead_routes::{InvalidValue, Query, invalid};

/// Maximum length of a selector in bytes, and of its requirements.
const MAX_SELECTOR_BYTES: usize = 4096;
const MAX_REQUIREMENTS: usize = 64;

/// Requirements, combined by AND.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// Also matches a missing key, as in Kubernetes.
    NotIn(Vec<String>),
}

impl Selector {
    /// Without a selector, matches everything.
    ///
    /// # Errors
    /// `FL-4109`
    pub(super) fn of(query: &Query) -> Result<Self, InvalidValue> {
        Selector::parse(query.one("selector")?.unwrap_or_default())
    }

    /// Parses a selector.
    ///
    /// # Errors
    /// `FL-4109`
    fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(invalid(format_args!(
                "selector: at most {MAX_SELECTOR_BYTES} bytes"
            )));
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
            let error = format_args!("selector: at most {MAX_REQUIREMENTS} requirements");
            return Err(invalid(error));
        }
        Ok(Selector(requirements))
    }

    /// True if it matches everything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` returns the value of a key.
    pub(super) fn matches<V: AsRef<str>>(&self, value: impl Fn(&str) -> Option<V>) -> bool {
        self.0.iter().all(|requirement| {
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

fn wrong(text: &str) -> InvalidValue {
    let text: String = text.chars().take(60).collect();
    invalid(format_args!("selector: {text:?} is not understood"))
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

fn requirement(text: &str) -> Result<Requirement, InvalidValue> {
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

fn checked(key: &str, text: &str) -> Result<String, InvalidValue> {
    let stranger = |c: char| c.is_whitespace() || "!=(),".contains(c);
    if key.is_empty() || key.contains(stranger) {
        return Err(wrong(text));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests;
