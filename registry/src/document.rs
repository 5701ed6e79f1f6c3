//! Tenants and clusters as the API takes and gives them: Lieutenant's documents, and what is ours in further optional
//! fields. What was sent is judged here, field by field, before anybody asks who has sent it.

pub(crate) mod cluster;
pub(crate) mod compile;
pub(crate) mod fields;
pub(crate) mod merge;
pub(crate) mod policy;
pub(crate) mod repo;
pub(crate) mod shown;
pub(crate) mod tenant;
