//! Parts of the public API descriptions (`git-servers/descriptions`): each request to a fake, and
//! each of its answers, is checked. An answer may have a part of the described fields.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde::Deserialize;
use serde_json::Value;

use crate::fakes::FakeKind;

/// Differences to the description that a fake has found.
pub(crate) type Differences = Arc<Mutex<Vec<String>>>;

/// Panics if there are differences, unless the thread panics already.
pub(crate) fn assert_none(differences: &Differences) {
    if !std::thread::panicking() {
        let found = differences.lock().unwrap();
        assert!(found.is_empty(), "not as the API is described: {found:#?}");
    }
}

#[derive(Deserialize)]
pub(crate) struct Description {
    operations: BTreeMap<String, Operation>,
    schemas: BTreeMap<String, Schema>,
    /// True if answers may have null for each field: GitLab's client reads it as an empty value.
    #[serde(skip)]
    allows_null: bool,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    query: Vec<String>,
    request: Option<Schema>,
    /// Schemas by status; `*` stands for each success.
    answers: BTreeMap<String, Option<Schema>>,
}

/// Schema of OpenAPI 3.0 or Swagger 2.0.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    r#type: Option<String>,
    #[serde(default)]
    nullable: bool,
    r#enum: Option<Vec<Value>>,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    properties: BTreeMap<String, Schema>,
    additional_properties: Option<Additional>,
    items: Option<Box<Schema>>,
    #[serde(default)]
    one_of: Vec<Schema>,
    #[serde(default)]
    any_of: Vec<Schema>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Answer,
}

/// A request with its answer.
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    /// Segments below the API's address.
    pub(crate) path: &'a [&'a str],
    pub(crate) query: Vec<&'a str>,
    pub(crate) request: &'a Value,
    pub(crate) status: u16,
    pub(crate) answer: &'a Value,
}

impl Description {
    pub(crate) fn of(kind: FakeKind) -> Self {
        let text = match kind {
            FakeKind::Gitea => include_str!("../../descriptions/gitea.json"),
            FakeKind::GitLab => include_str!("../../descriptions/gitlab.json"),
            FakeKind::GitHub => include_str!("../../descriptions/github.json"),
        };
        Description {
            allows_null: kind == FakeKind::GitLab,
            ..serde_json::from_str(text).unwrap()
        }
    }

    /// First difference of an exchange to the description.
    pub(crate) fn check(&self, it: &Exchange<'_>) -> Result<(), String> {
        let (name, operation) = self.find(it.method, it.path)?;
        if let Some(unknown) = it
            .query
            .iter()
            .find(|&query| !operation.query.iter().any(|it| it == query))
        {
            return Err(format!("{name}: no query parameter {unknown}"));
        }
        match &operation.request {
            Some(schema) if !it.request.is_null() => {
                self.fits(
                    schema,
                    it.request,
                    Side::Request,
                    &format!("{name}: request"),
                )?;
            }
            None if !it.request.is_null() => return Err(format!("{name}: request has a body")),
            _ => {}
        }
        // Errors of authentication, limits and faults are no part of the operations.
        if it.status >= 300 {
            return Ok(());
        }
        let status = it.status.to_string();
        let answer = operation
            .answers
            .get(&status)
            .or(operation.answers.get("*"));
        match answer {
            None => Err(format!("{name}: no answer {status}")),
            Some(Some(schema)) if !it.answer.is_null() => {
                self.fits(schema, it.answer, Side::Answer, &format!("{name}: answer"))
            }
            Some(_) => Ok(()),
        }
    }

    /// The operation of a path with the most fixed segments.
    fn find(&self, method: &str, path: &[&str]) -> Result<(&String, &Operation), String> {
        let path = match path {
            // GitHub names repositories by number in redirects only.
            ["repositories", _number] => &["repos", "owner", "name"],
            path => path,
        };
        let fixed = |name: &str| name.split('/').filter(|it| !it.starts_with('{')).count();
        let fitting = self.operations.iter().filter(|(name, _)| {
            let (verb, template) = name.split_once(" /").unwrap();
            verb == method && matches(template, path)
        });
        fitting
            .max_by_key(|(name, _)| fixed(name))
            .ok_or_else(|| format!("no operation {method} /{}", path.join("/")))
    }

    fn fits(&self, schema: &Schema, value: &Value, side: Side, at: &str) -> Result<(), String> {
        if let Some(name) = &schema.reference {
            return self.fits(&self.schemas[name], value, side, at);
        }
        if value.is_null() && (schema.nullable || self.allows_null && side == Side::Answer) {
            return Ok(());
        }
        for variants in [&schema.one_of, &schema.any_of] {
            let tried = variants.iter().map(|it| self.fits(it, value, side, at));
            let tried: Vec<_> = tried.collect();
            if !tried.is_empty() && !tried.iter().any(Result::is_ok) {
                return tried.into_iter().next_back().unwrap();
            }
        }
        let is_typed = match schema.r#type.as_deref() {
            None => true,
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some(other) => panic!("unknown type {other}"),
        };
        if !is_typed || schema.r#enum.as_ref().is_some_and(|it| !it.contains(value)) {
            return Err(format!("{at} does not fit: {value}"));
        }
        match (value, &schema.items) {
            (Value::Array(all), Some(items)) => all
                .iter()
                .enumerate()
                .try_for_each(|(index, it)| self.fits(items, it, side, &format!("{at}[{index}]"))),
            (Value::Object(map), _) => self.object_fits(schema, map, side, at),
            _ => Ok(()),
        }
    }

    fn object_fits(
        &self,
        schema: &Schema,
        map: &serde_json::Map<String, Value>,
        side: Side,
        at: &str,
    ) -> Result<(), String> {
        let missing = schema.required.iter().find(|it| !map.contains_key(*it));
        if let Some(missing) = missing.filter(|_| side == Side::Request) {
            return Err(format!("{at}.{missing} is missing"));
        }
        for (name, value) in map {
            let at = format!("{at}.{name}");
            match (schema.properties.get(name), &schema.additional_properties) {
                (Some(known), _) => self.fits(known, value, side, &at)?,
                (None, Some(Additional::Schema(other))) => self.fits(other, value, side, &at)?,
                (None, Some(Additional::Allowed(true))) => {}
                // An object without any field, or with variants, is described elsewhere.
                (None, None) if schema.properties.is_empty() => {}
                (None, _) => return Err(format!("{at} is no field of the description")),
            }
        }
        Ok(())
    }
}

/// True if a path fits a template; the last parameter may have several segments.
fn matches(template: &str, path: &[&str]) -> bool {
    let parts: Vec<&str> = template.split('/').collect();
    let is_open = ["{ref}", "{path}"].contains(parts.last().unwrap());
    let has_length = path.len() == parts.len() || is_open && path.len() > parts.len();
    has_length
        && parts
            .iter()
            .zip(path)
            .all(|(part, segment)| part.starts_with('{') || part == segment)
}
