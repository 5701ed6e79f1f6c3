//! JSON of a spec with gaps, so that clusters with values of their own cost little.

use std::{borrow::Cow, collections::BTreeMap};

use fairlead_api::delivery::Spec;
use serde_json::Value;

use crate::{
    canonical::{sorted, write_json, write_key},
    variables::{UsedVariables, VariableError, substitute_text},
};

/// Field of a spec with the values of variables.
const VARIABLES: &str = "variables";

/// Canonical JSON of a spec, in parts.
#[derive(Debug)]
pub(super) struct SpecTemplate {
    parts: Vec<Part>,
    /// Variables of manifests: their values go into the spec.
    of_manifests: UsedVariables,
}

#[derive(Debug)]
enum Part {
    /// JSON of all clusters.
    Json(Vec<u8>),
    /// A string in which variables are replaced.
    Text(String),
    /// A comma and the field `variables`; nothing without any value.
    Variables,
}

impl SpecTemplate {
    /// Splits a spec. Variables are replaced in values of the release and in patches.
    pub(super) fn new(spec: &Spec, of_manifests: UsedVariables) -> Self {
        let mut template = SpecTemplate {
            parts: Vec::new(),
            of_manifests,
        };
        // A spec is a map with text keys only.
        let value = serde_json::to_value(spec).unwrap_or_default();
        let fields = value.as_object().map(sorted).unwrap_or_default();
        let (before, after): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .partition(|(name, _)| name.as_str() < VARIABLES);
        template.json(|json| json.push(b'{'));
        for (number, (name, value)) in before.into_iter().enumerate() {
            template.field(number, name, value);
        }
        template.parts.push(Part::Variables);
        for (name, value) in after {
            // The first field of a spec is `adopt`, so a comma precedes all of these.
            template.field(1, name, value);
        }
        template.json(|json| json.push(b'}'));
        template
    }

    /// JSON of the spec with these values, by full name.
    pub(super) fn render(
        &self,
        variables: &BTreeMap<&str, &Value>,
    ) -> Result<Vec<u8>, VariableError> {
        let lookup = |name: &str| variables.get(name).copied().map(Cow::Borrowed);
        let mut json = Vec::with_capacity(1024);
        for part in &self.parts {
            match part {
                Part::Json(part) => json.extend_from_slice(part),
                Part::Text(text) => write_json(&substitute_text(text, &lookup)?, &mut json),
                Part::Variables => self.write_variables(variables, &mut json),
            }
        }
        Ok(json)
    }

    fn write_variables(&self, variables: &BTreeMap<&str, &Value>, json: &mut Vec<u8>) {
        let used = variables
            .iter()
            .filter(|(name, _)| self.of_manifests.contains(name));
        let mut is_empty = true;
        for (number, (name, value)) in used.enumerate() {
            if is_empty {
                is_empty = false;
                write_key(1, VARIABLES, json);
                json.push(b'{');
            }
            write_key(number, name, json);
            write_json(value, json);
        }
        if !is_empty {
            json.push(b'}');
        }
    }

    fn field(&mut self, number: usize, name: &str, value: &Value) {
        self.json(|json| write_key(number, name, json));
        match (name, value) {
            ("patches", value) => self.value(value),
            ("helm", Value::Object(options)) => {
                self.json(|json| json.push(b'{'));
                for (number, (name, value)) in sorted(options).into_iter().enumerate() {
                    self.json(|json| write_key(number, name, json));
                    if name == "values" {
                        self.value(value);
                    } else {
                        self.json(|json| write_json(value, json));
                    }
                }
                self.json(|json| json.push(b'}'));
            }
            _ => self.json(|json| write_json(value, json)),
        }
    }

    /// A value with variables in its strings.
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.contains("${") => {
                self.parts.push(Part::Text(text.clone()));
            }
            Value::Array(items) => {
                self.json(|json| json.push(b'['));
                for (number, item) in items.iter().enumerate() {
                    if number > 0 {
                        self.json(|json| json.push(b','));
                    }
                    self.value(item);
                }
                self.json(|json| json.push(b']'));
            }
            Value::Object(map) => {
                self.json(|json| json.push(b'{'));
                for (number, (key, item)) in sorted(map).into_iter().enumerate() {
                    self.json(|json| write_key(number, key, json));
                    self.value(item);
                }
                self.json(|json| json.push(b'}'));
            }
            scalar => self.json(|json| write_json(scalar, json)),
        }
    }

    /// Appends to the last part.
    fn json(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(Part::Json(json)) = self.parts.last_mut() {
            write(json);
            return;
        }
        let mut json = Vec::new();
        write(&mut json);
        self.parts.push(Part::Json(json));
    }
}
