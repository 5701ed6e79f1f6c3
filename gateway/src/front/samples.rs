//! Values for unit tests.

use fairlead_api::resources::Role;

use fairlead_seam::Caller;

/// A viewer of all tenants.
pub(crate) fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        token: None,
        role: Role::Viewer,
        tenant: None,
        cluster: None,
        subject: None,
        expires: None,
    }
}
