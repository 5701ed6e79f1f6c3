//! Dependencies in `Chart.yaml`: which of them the values enable.

use serde_json::{Map, Value};

use super::{ChartError, Files, document};
use fairlead_bundle::fields::CHART_FILE_NAME;

/// File with the dependencies of charts with `apiVersion: v1`.
const OLD_FILE_NAME: &str = "requirements.yaml";

/// Listed dependencies of one chart.
pub(super) struct Dependencies(Vec<Value>);

impl Dependencies {
    pub(super) fn of(files: &Files<'_>) -> Result<Self, ChartError> {
        for name in [CHART_FILE_NAME, OLD_FILE_NAME] {
            let document = document(files, name)?;
            let list = document
                .as_ref()
                .and_then(|it| it.get("dependencies")?.as_array());
            if let Some(list) = list {
                return Ok(Self(list.clone()));
            }
        }
        Ok(Self(Vec::new()))
    }

    /// Keys of the values of a chart in the folder `charts`, once for each enabled entry. A chart without entry is enabled.
    pub(super) fn enabled(&self, name: &str, values: &Map<String, Value>) -> Vec<String> {
        let entries = || self.0.iter().filter(|it| text(it, "name") == Some(name));
        if entries().next().is_none() {
            return vec![name.to_owned()];
        }
        entries()
            .filter(|entry| is_enabled(entry, values))
            .map(|entry| text(entry, "alias").unwrap_or(name).to_owned())
            .collect()
    }
}

fn text<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.get(field)?.as_str().filter(|it| !it.is_empty())
}

/// The first condition with a boolean decides, else the tags: one that is true enables, otherwise one that is false disables.
fn is_enabled(entry: &Value, values: &Map<String, Value>) -> bool {
    let conditions = text(entry, "condition").unwrap_or_default().split(',');
    let decided = conditions
        .filter_map(|path| boolean(path.trim(), values))
        .next();
    if let Some(decided) = decided {
        return decided;
    }
    let tags = entry.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(Value::as_str);
    let found: Vec<bool> = tags
        .filter_map(|tag| values.get("tags")?.get(tag)?.as_bool())
        .collect();
    found.is_empty() || found.contains(&true)
}

fn boolean(path: &str, values: &Map<String, Value>) -> Option<bool> {
    let mut keys = path.split('.');
    let mut value = values.get(keys.next()?)?;
    for key in keys {
        value = value.get(key)?;
    }
    value.as_bool()
}
