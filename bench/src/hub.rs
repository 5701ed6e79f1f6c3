//! A hub that is measured alone: its process and stores, its callers, repeated operations, and their figures.

pub(crate) mod client;
pub(crate) mod figures;
pub(crate) mod measure;
pub(crate) mod process;
pub(crate) mod store;
