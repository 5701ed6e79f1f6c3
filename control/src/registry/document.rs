//! Tenants and clusters as the API takes and gives them: Lieutenant's documents, and what is ours in further optional
//! fields. What was sent is judged here, field by field, before anybody asks who has sent it.

mod cluster;
mod compile;
mod fields;
mod merge;
mod policy;
mod repo;
mod shown;
mod tenant;

pub(super) use cluster::ClusterSpec;
pub(super) use compile::read as compile_meta;
pub(super) use fields::{Fields, invalid};
pub(super) use merge::{cluster as merge_cluster, tenant as merge_tenant};
pub(super) use policy::OURS;
pub(super) use repo::Repo;
pub(super) use shown::{Opening, ShownCluster, ShownTenant};
pub(super) use tenant::TenantSpec;
