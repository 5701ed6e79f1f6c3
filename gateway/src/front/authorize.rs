//! [`Caller`] to [`Permit`], before any work is done. Nothing else can make a permit, and nothing reaches a cluster
//! without one.

use fairlead_api::{ClusterId, Code, Failure};
use http::HeaderValue;

use crate::{
    front::{authenticate::Known, route::Aimed},
    hub::Hub,
    seam::{Caller, Grant},
};

/// Proof that a caller may work in this cluster, with the names to impersonate there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permit {
    cluster: ClusterId,
    user: HeaderValue,
    groups: [HeaderValue; 2],
}

impl Permit {
    fn new(cluster: &ClusterId, caller: &Caller, grant: &Grant) -> Result<Self, Failure> {
        // Every name has our prefix, so `system:` cannot be one of them whatever a module says.
        let value = |text: String| {
            HeaderValue::try_from(text)
                .map_err(|_| Failure::because(Code::Internal, "the name of the caller is no name"))
        };
        let role = grant.role;
        Ok(Permit {
            cluster: cluster.clone(),
            user: value(format!("fairlead:{}", caller.name))?,
            groups: [
                value(format!("fairlead:{role}"))?,
                value(format!("fairlead:tenant:{}:{role}", grant.tenant))?,
            ],
        })
    }

    pub(crate) fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    pub(crate) fn user(&self) -> &HeaderValue {
        &self.user
    }

    pub(crate) fn groups(&self) -> &[HeaderValue] {
        &self.groups
    }
}

/// A request that may go to its cluster.
pub(crate) struct Allowed {
    pub(crate) permit: Permit,
    pub(crate) aimed: Aimed,
}

/// # Errors
/// `FL-1301`, `FL-1201`, `FL-5102`.
pub(crate) async fn authorize(hub: &Hub, known: Known<Aimed>) -> Result<Allowed, Failure> {
    let Known { caller, asked } = known;
    let grant = hub.trust.grant(&caller, &asked.cluster).await?;
    let permit = Permit::new(&asked.cluster, &caller, &grant)?;
    Ok(Allowed {
        permit,
        aimed: asked,
    })
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::Role;

    use super::*;

    fn permit(name: &str) -> Result<Permit, Failure> {
        let caller = Caller {
            token: None,
            name: name.to_owned(),
            role: Role::Admin,
            tenant: None,
            cluster: None,
        };
        let grant = Grant {
            role: Role::Operator,
            tenant: "t-acme".parse().unwrap(),
        };
        Permit::new(&"c-demo".parse().unwrap(), &caller, &grant)
    }

    #[test]
    fn a_permit_names_user_role_and_tenant_and_never_system() {
        let permit = permit("system:masters").unwrap();
        assert_eq!(permit.user(), "fairlead:system:masters");
        assert_eq!(
            permit.groups(),
            ["fairlead:operator", "fairlead:tenant:t-acme:operator"]
        );
    }

    #[test]
    fn a_name_that_is_no_header_makes_no_permit() {
        for name in ["a\r\nfairlead-group: x", "a\0", "a\n"] {
            assert_eq!(permit(name).unwrap_err().code, Code::Internal, "{name:?}");
        }
    }
}
