//! Text of one value in each format.

use std::error::Error;

use fairlead_api::{Code, Failure, error_chain};
use serde::Serialize;
use serde_json::Value;

use crate::{custom::items, format::OutputFormat};

/// Fields for `-o name`; the first one that a resource has is its name.
const NAME_FIELDS: [&str; 5] = ["id", "name", "cluster", "instance", "version"];

/// Value without a text form.
#[derive(Debug, thiserror::Error)]
#[error("an answer cannot be printed")]
pub struct RenderError(#[source] Box<dyn Error + Send + Sync>);

impl RenderError {
    fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        RenderError(error.into())
    }
}

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Self {
        Failure::because(Code::Internal, error_chain(&error))
    }
}

/// Renders one value; `names` renders it for `-o name`, and `table` for people.
///
/// # Errors
/// [`RenderError`] if the value cannot be serialized.
pub fn render<T: Serialize>(
    format: &OutputFormat,
    value: &T,
    names: impl FnOnce(&T) -> String,
    table: impl FnOnce(&T) -> String,
) -> Result<String, RenderError> {
    Ok(match format {
        OutputFormat::Table | OutputFormat::Wide => table(value),
        OutputFormat::Json => serde_json::to_string_pretty(value).map_err(RenderError::new)? + "\n",
        OutputFormat::Yaml => yaml(value)?,
        OutputFormat::Name => names(value),
        OutputFormat::JsonPath(template) => template.render(&json(value)?),
        OutputFormat::CustomColumns(columns) => columns.table(&json(value)?),
    })
}

/// Renders one value of a stream: a line of JSON, or a document of YAML.
///
/// # Errors
/// [`RenderError`] if the value cannot be serialized.
pub fn line<T: Serialize>(format: &OutputFormat, value: &T) -> Result<String, RenderError> {
    let value = json(value)?;
    Ok(match format {
        OutputFormat::Json | OutputFormat::Table | OutputFormat::Wide => format!("{value}\n"),
        OutputFormat::Yaml => format!("---\n{}", yaml(&value)?),
        OutputFormat::Name => item_names(&value),
        OutputFormat::JsonPath(template) => template.render(&value),
        OutputFormat::CustomColumns(columns) => columns.row(&value),
    })
}

/// Names of all items, one per line.
///
/// # Errors
/// [`RenderError`] if the value cannot be serialized.
pub fn names<T: Serialize>(value: &T) -> Result<String, RenderError> {
    Ok(item_names(&json(value)?))
}

/// Renders YAML.
///
/// # Errors
/// [`RenderError`] if the value cannot be serialized.
pub fn yaml<T: Serialize>(value: &T) -> Result<String, RenderError> {
    serde_saphyr::to_string(value).map_err(RenderError::new)
}

fn item_names(value: &Value) -> String {
    let name = |item: &Value| {
        let mut known = NAME_FIELDS
            .iter()
            .filter_map(|field| item.get(*field)?.as_str());
        known.next().map(|name| format!("{name}\n"))
    };
    items(value).iter().filter_map(name).collect()
}

fn json<T: Serialize>(value: &T) -> Result<Value, RenderError> {
    serde_json::to_value(value).map_err(RenderError::new)
}
