//! Decisions for a deployment of a GitOps tool that later manages itself (policy `repair`): its own changes, its syncs, and
//! whether it works.

mod overlay;
mod pods;
mod sync;
mod tool;

pub use overlay::{overlaid, owns_secret_values};
pub use pods::is_starting;
pub use sync::{SyncFailure, SyncState, is_sync_object};
pub use tool::{
    PAUSED_ANNOTATION, change_of, is_paused, is_tool_manager, joined_change, short_diff,
};
