//! Objects that install a GitOps tool in a cluster: pinned upstream manifests, restricted, with the source of the catalog.
//!
//! All functions are pure: the hub reads files and settings, delivers the objects as a bundle, and grants the account of
//! that bundle the rights for them.

mod argocd;
mod flux;
mod keys;
mod objects;
mod render;
mod rights;
mod upstream;
mod workloads;

pub use keys::{KeyProblem, check_keys};
pub use render::{Installation, RenderError, render};
pub use rights::{InstallerRights, rights};
pub use upstream::{ManifestProblem, ToolManifest, embedded_version, file_name};

use fairlead_api::gitops::GitOpsTool;

/// Namespace of a tool; `None` without one.
#[must_use]
pub const fn namespace(tool: GitOpsTool) -> Option<&'static str> {
    match tool {
        GitOpsTool::Flux => Some(flux::NAMESPACE),
        GitOpsTool::Argocd => Some(argocd::NAMESPACE),
        GitOpsTool::None => None,
    }
}
