//! Declared content of Git repositories.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file of a repository as declared: its content, or `{"delete": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TemplateFile {
    /// Content of the file.
    Content(String),
    /// The file does not exist.
    Deleted(DeletedFile),
}

impl TemplateFile {
    /// Marker of a file that must not exist.
    pub const DELETED: TemplateFile = TemplateFile::Deleted(DeletedFile { delete: true });
}

/// Marker of a file that is removed from the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeletedFile {
    /// Always true.
    #[schema(extensions(("const" = json!(true))))]
    pub delete: bool,
}
