//! Reads `fairlead.yaml`.

use fairlead_api::delivery::{BundleFields, BundleKind};
use serde_saphyr::{MessageFormatter, UserMessageFormatter, options::DuplicateKeyPolicy};

use super::strict::FileFields;

/// Maximum length of `fairlead.yaml` in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// A `fairlead.yaml` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file is longer than [`MAX_FILE_BYTES`].
    #[error("fairlead.yaml has more than {MAX_FILE_BYTES} bytes")]
    Length,
    /// The file is no YAML, or has other fields or types than a bundle.
    #[error("fairlead.yaml, line {line}: {message}")]
    Yaml {
        /// Line of the cause, from 1; 0 if unknown.
        line: u64,
        /// Cause, one line.
        message: String,
    },
}

/// Parses `fairlead.yaml`. An empty file has no options.
///
/// Without the field `kind`, a folder with `Chart.yaml` or a file with `chart` is a Helm chart.
///
/// # Errors
/// [`FileError`] for unknown fields, duplicate keys and wrong types, with the line.
pub fn parse_file(text: &str, has_chart_file: bool) -> Result<BundleFields, FileError> {
    parse_named_file(text, has_chart_file).map(|(_, fields)| fields)
}

/// Like [`parse_file`], with the field `name`: the name of the bundle.
///
/// # Errors
/// [`FileError`] as of [`parse_file`].
pub fn parse_named_file(
    text: &str,
    has_chart_file: bool,
) -> Result<(Option<String>, BundleFields), FileError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(FileError::Length);
    }
    // Numbers like 0644 mean the same as in manifests.
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let read: Option<FileFields> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| yaml_error(&error))?;
    let Some(FileFields {
        mut fields,
        has_kind,
        name,
    }) = read
    else {
        return Ok((None, default_fields(has_chart_file)));
    };
    if !has_kind && (has_chart_file || fields.chart.is_some()) {
        fields.kind = BundleKind::Helm;
    }
    Ok((name, fields))
}

/// Options of a folder without `fairlead.yaml`.
fn default_fields(has_chart_file: bool) -> BundleFields {
    let kind = if has_chart_file {
        BundleKind::Helm
    } else {
        BundleKind::Manifests
    };
    BundleFields {
        kind,
        ..BundleFields::default()
    }
}

fn yaml_error(error: &serde_saphyr::Error) -> FileError {
    let line = error.location().map_or(0, |location| location.line());
    let message = UserMessageFormatter.format_message(error.without_snippet());
    let message = message.replace('\n', " ");
    FileError::Yaml { line, message }
}

#[cfg(test)]
mod tests;
