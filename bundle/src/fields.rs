//! Options of a bundle: the file `fairlead.yaml`, and checks of the record.

mod check;
mod error;
mod file;
mod helm;
mod json;
mod names;
mod patches;
mod strict;

pub use check::{check_bundle, check_fields, errors_of_bundle};
pub use error::{FieldError, Problem};
pub use file::{FileError, MAX_FILE_BYTES, parse_file, parse_named_file};
pub use json::parse_json;

/// Name of the file with the options.
pub const FILE_NAME: &str = "fairlead.yaml";

/// Name of the file that makes a folder a chart.
pub const CHART_FILE_NAME: &str = "Chart.yaml";
