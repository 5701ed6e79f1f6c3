//! Text of answers: tables for people; JSON, YAML, ids or selected fields for programs, all from the value of the API.
//!
//! Pure: nothing here prints, reads the environment or knows the commands.

mod age;
mod custom;
mod format;
mod jsonpath;
mod render;
mod short;
mod table;

pub use age::{age, time};
pub use custom::CustomColumns;
pub use format::{FORMATS, OutputFormat};
pub use jsonpath::Template;
pub use render::{RenderError, line, names, render, yaml};
pub use short::short;
pub use table::{
    Columns,
    layout::{Cell, TableColumn},
    named_table, shown_cells, table, untruncated_table,
};
