//! HTTP shared by the front and by agents' sessions: bodies, paths, answers that report a failure, calls of modules.

pub(crate) mod agent_failure;
pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod lookup;
pub(crate) mod modules;
pub(crate) mod panic;
pub(crate) mod path;
