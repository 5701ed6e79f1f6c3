//! One table of a TOML file, read field by field. Each mistake is noted with its line, and reading
//! continues.

use std::{collections::BTreeMap, fmt::Display, ops::Range};

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

/// Mistakes of a whole file, in the order of their lines.
pub(super) struct Mistakes<'a> {
    text: &'a str,
    found: Vec<(usize, String)>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let found = Vec::new();
        Mistakes { text, found }
    }

    /// Notes a mistake at a byte offset of the file.
    pub(super) fn note(&mut self, at: usize, table: &str, cause: impl Display) {
        let before = self.text.bytes().take(at);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        let table = match table {
            "" => String::new(),
            table => format!("[{table}] "),
        };
        self.found
            .push((line, format!("line {line}: {table}{cause}")));
    }

    /// Returns all mistakes, one line each.
    pub(super) fn finish(mut self) -> Result<(), Vec<String>> {
        self.found.sort_by_key(|(line, _)| *line);
        match self.found.is_empty() {
            true => Ok(()),
            false => Err(self.found.into_iter().map(|(_, text)| text).collect()),
        }
    }
}

/// TableFields of a table that were not consumed yet.
pub(super) struct TableFields<'a> {
    /// Path of the table, like `issuer.corp`.
    name: String,
    at: usize,
    fields: BTreeMap<String, (Range<usize>, Spanned<DeValue<'a>>)>,
}

/// A value and its byte offset.
pub(super) struct LocatedValue<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

impl<'a> TableFields<'a> {
    pub(super) fn of(name: String, at: usize, table: DeTable<'a>) -> Self {
        let fields = table.into_iter();
        let fields = fields.map(|(key, value)| (key.get_ref().to_string(), (key.span(), value)));
        let fields = fields.collect();
        TableFields { name, at, fields }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Byte offset of the table.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The tables below a key, by name.
    pub(super) fn tables(
        &mut self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
    ) -> Vec<TableFields<'a>> {
        let Some((span, value)) = self.fields.remove(key) else {
            return Vec::new();
        };
        let DeValue::Table(tables) = value.into_inner() else {
            mistakes.note(
                span.start,
                "",
                format_args!("{key}: expected tables [{key}.NAME]"),
            );
            return Vec::new();
        };
        let mut found = Vec::new();
        for (name, value) in tables {
            let (at, name) = (name.span().start, format!("{key}.{}", name.get_ref()));
            match value.into_inner() {
                DeValue::Table(table) => found.push(TableFields::of(name, at, table)),
                _ => mistakes.note(at, "", format_args!("{name}: expected a table [{name}]")),
            }
        }
        found
    }

    /// The inline tables of a list, each with its index from 1.
    pub(super) fn list(
        &mut self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Vec<TableFields<'a>>> {
        let Some((_, value)) = self.fields.remove(key) else {
            mistakes.note(self.at, &self.name, format_args!("{key} is missing"));
            return None;
        };
        let at = value.span().start;
        let DeValue::Array(values) = value.into_inner() else {
            mistakes.note(
                at,
                &self.name,
                format_args!("{key}: expected a list of tables"),
            );
            return None;
        };
        let mut found = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let at = value.span().start;
            match value.into_inner() {
                DeValue::Table(table) => {
                    let name = format!("{}] {key}[{}", self.name, index + 1);
                    found.push(TableFields::of(name, at, table));
                }
                _ => mistakes.note(at, &self.name, format_args!("{key}: expected a table")),
            }
        }
        Some(found)
    }

    /// An optional field.
    pub(super) fn optional<T: DeserializeOwned>(
        &mut self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<LocatedValue<T>> {
        let (_, value) = self.fields.remove(key)?;
        let at = value.span().start;
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Some(LocatedValue { value, at }),
            Err(error) => {
                mistakes.note(at, &self.name, format_args!("{key}: {}", error.message()));
                None
            }
        }
    }

    /// A required field.
    pub(super) fn required<T: DeserializeOwned>(
        &mut self,
        key: &str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<LocatedValue<T>> {
        if !self.fields.contains_key(key) {
            mistakes.note(self.at, &self.name, format_args!("{key} is missing"));
        }
        self.optional(key, mistakes)
    }

    /// Notes all fields that were not consumed as unknown.
    pub(super) fn finish(self, mistakes: &mut Mistakes<'_>) {
        for (key, (span, _)) in &self.fields {
            mistakes.note(
                span.start,
                &self.name,
                format_args!("unknown field {key:?}"),
            );
        }
    }
}
