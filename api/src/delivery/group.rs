//! Groups: named selectors of clusters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{GroupId, Selector, TenantId};

/// A named selector of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Id of the group.
    pub id: GroupId,
    /// Members are clusters of this tenant and of its sub-tenants.
    pub tenant: TenantId,
    /// Labels of members.
    pub selector: Selector,
}

/// A group and the number of its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupStatus {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// Number of clusters in the group now.
    pub members: usize,
}

/// Body of `PUT /v1/groups/{groupId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutGroup {
    /// Members are clusters of this tenant and of its sub-tenants.
    pub tenant: TenantId,
    /// Labels of members, at least one.
    pub selector: Selector,
}
