//! Output formats, the values of `-o`.

use std::str::FromStr;

use crate::{custom::CustomColumns, jsonpath::Template};

/// Output format, the value of `-o`.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputFormat {
    /// Table with the columns that fit the terminal.
    Table,
    /// Table with more columns and without truncation.
    Wide,
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
    /// Ids, one per line.
    Name,
    /// Fields selected by a template.
    JsonPath(Template),
    /// Table with columns selected by paths.
    CustomColumns(CustomColumns),
}

/// Values of `-o`, for completion.
pub const FORMATS: [&str; 7] = [
    "table",
    "wide",
    "json",
    "yaml",
    "name",
    "jsonpath=",
    "custom-columns=",
];

impl OutputFormat {
    /// True for tables with fixed columns.
    #[must_use]
    pub fn is_table(&self) -> bool {
        matches!(self, OutputFormat::Table | OutputFormat::Wide)
    }
}

impl FromStr for OutputFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Ok(OutputFormat::JsonPath(template.parse()?)),
            Some(("custom-columns", columns)) => Ok(OutputFormat::CustomColumns(columns.parse()?)),
            _ => match text {
                "table" => Ok(OutputFormat::Table),
                "wide" => Ok(OutputFormat::Wide),
                "json" => Ok(OutputFormat::Json),
                "yaml" => Ok(OutputFormat::Yaml),
                "name" => Ok(OutputFormat::Name),
                _ => Err(
                    "expected table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:.path,..."
                        .to_owned(),
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_parsed_with_their_arguments() {
        for text in FORMATS.iter().filter(|it| !it.ends_with('=')) {
            assert!(text.parse::<OutputFormat>().is_ok(), "{text}");
        }
        assert!("custom-columns=ID:.id".parse::<OutputFormat>().is_ok());
        assert!("custom-columns=ID".parse::<OutputFormat>().is_err());
        assert!("jsonpath={.id".parse::<OutputFormat>().is_err());
        assert!("tables".parse::<OutputFormat>().is_err());
    }
}
