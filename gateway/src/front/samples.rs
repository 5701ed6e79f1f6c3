//! Values for unit tests.

use std::sync::Arc;

use fairlead_api::resources::Role;

use fairlead_seam::{Caller, ClusterScope};

/// A viewer of all tenants.
pub(crate) fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        token: None,
        role: Role::Viewer,
        tenant: None,
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: None,
        expires: None,
    }
}
