//! JSON documents of tenants and clusters: Lieutenant's fields, and our own optional ones. A
//! received document is validated field by field before the caller is authenticated.

pub(crate) mod cluster;
pub(crate) mod compile;
pub(crate) mod fields;
pub(crate) mod merge;
mod pipeline;
pub(crate) mod policy;
pub(crate) mod repo;
pub(crate) mod repo_files;
mod repo_token;
pub(crate) mod repo_variables;
pub(crate) mod shown;
mod site;
pub(crate) mod tenant;
