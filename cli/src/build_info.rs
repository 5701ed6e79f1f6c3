//! Properties of this build.

/// Version of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
