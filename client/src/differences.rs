//! Differences between a planned document and the current one.

use std::fmt;

use serde_json::{Map, Value};

/// One value that differs from the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Field names, joined by dots.
    pub path: String,
    /// `None` if the value is missing.
    pub before: Option<Value>,
    /// The planned value.
    pub after: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.before {
            None => write!(f, "+ {}: {}", self.path, self.after),
            Some(before) => write!(f, "~ {}: {before} -> {}", self.path, self.after),
        }
    }
}

/// Lists every value of `planned` that `now` lacks. Values only in `now` are ignored.
#[must_use]
pub fn differences(now: &Value, planned: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(now), planned, &mut found);
    found
}

fn compare(path: &str, now: Option<&Value>, planned: &Value, found: &mut Vec<Difference>) {
    let empty = Map::new();
    match (now, planned) {
        (Some(now), planned) if alike(now, planned) => {}
        (None | Some(Value::Object(_)), Value::Object(fields)) if !fields.is_empty() => {
            let now = now.and_then(Value::as_object).unwrap_or(&empty);
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                compare(&format!("{path}{dot}{name}"), now.get(name), value, found);
            }
        }
        (now, planned) => found.push(Difference {
            path: path.to_owned(),
            before: now.cloned(),
            after: planned.clone(),
        }),
    }
}

/// Equal values, or equal times: zone and number of digits do not matter.
fn alike(one: &Value, other: &Value) -> bool {
    use time::{OffsetDateTime, format_description::well_known::Rfc3339};
    let time = |value: &Value| OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok();
    one == other || time(one).is_some_and(|at| time(other) == Some(at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_planned_values_count_as_differences() {
        let now = json!({ "id": "c-a", "facts": { "cloud": "aws", "zone": "b" }, "at": "2026-11-22T01:00:00+01:00" });
        let planned = json!({
            "facts": { "cloud": "gcp", "region": "eu" },
            "at": "2026-11-22T00:00:00.000Z",
            "gitRepo": { "url": "x" },
        });
        let lines: Vec<_> = differences(&now, &planned)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                r#"~ facts.cloud: "aws" -> "gcp""#,
                r#"+ facts.region: "eu""#,
                r#"+ gitRepo.url: "x""#,
            ]
        );
        assert!(differences(&planned, &planned).is_empty());
    }
}
