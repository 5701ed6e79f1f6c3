//! Variables that texts of a bundle use.

use std::collections::{BTreeMap, btree_map};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    name::{Variable, is_name_byte},
    reference::{Part, Parts},
};

/// Full names of used variables; true if a reference without default exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UsedVariables(BTreeMap<String, bool>);

impl UsedVariables {
    /// Scans the text of a file.
    ///
    /// The result may have more names than the parsed file, for example of comments. It lacks names that the file
    /// writes with escapes of YAML inside of the name.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let mut used = UsedVariables::default();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, reference) = rest.split_at(at);
            let (_, inner) = reference.split_at(2);
            let end = inner.bytes().position(|byte| !is_name_byte(byte));
            let (name, after) = inner.split_at(end.unwrap_or(inner.len()));
            // A default may go on in the next line of a YAML scalar, so its end is not searched.
            let required = after.starts_with('}');
            if (required || after.starts_with(":-")) && !before.ends_with('$') {
                used.add(name, required);
            }
            rest = inner;
        }
        used
    }

    /// Adds the variables in strings of a value.
    pub fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                for part in Parts::new(text) {
                    match part {
                        Part::Text(_) => {}
                        Part::Reference { name, default } => self.add(name, default.is_none()),
                        Part::Nested(name) => self.add(name, true),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_value(item)),
            Value::Object(map) => map.values().for_each(|item| self.add_value(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds those of another text.
    pub fn extend(&mut self, other: &UsedVariables) {
        for (name, required) in &other.0 {
            self.add(name, *required);
        }
    }

    /// Names, each with true if it has no default somewhere.
    pub fn iter(&self) -> btree_map::Iter<'_, String, bool> {
        self.0.iter()
    }

    /// True if the texts use the variable with this full name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// True without any variable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, name: &str, required: bool) {
        if Variable::parse(name).is_none() {
            return;
        }
        match self.0.get_mut(name) {
            Some(known) => *known |= required,
            None => drop(self.0.insert(name.to_owned(), required)),
        }
    }
}

impl<'a> IntoIterator for &'a UsedVariables {
    type Item = (&'a String, &'a bool);
    type IntoIter = btree_map::Iter<'a, String, bool>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_a_text_are_found() {
        let text = "a: ${vars.x}\nb: ${vars.x:-1}${cluster.id} # ${cluster.facts.zone:-a\n\
                    c: $HOME ${HOME} $${vars.escaped} ${cluster.color} ${vars.open";
        let used = UsedVariables::of_text(text);
        let found: Vec<_> = used.iter().map(|(name, it)| (name.as_str(), *it)).collect();
        assert_eq!(
            found,
            [
                ("cluster.facts.zone", false),
                ("cluster.id", true),
                ("vars.x", true)
            ]
        );
    }

    #[test]
    fn names_of_a_value_are_found() {
        let mut used = UsedVariables::default();
        used.add_value(&json!({"${vars.key}": ["${vars.a}", {"b": "x${vars.b:-1}"}], "n": 1}));
        let json = serde_json::to_value(&used).unwrap();
        assert_eq!(json, json!({"vars.a": true, "vars.b": false}));
        let read: UsedVariables = serde_json::from_value(json).unwrap();
        assert_eq!(read, used);
    }
}
