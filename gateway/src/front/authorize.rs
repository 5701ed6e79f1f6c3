//! The step from [`Caller`] to [`Permit`], before any work for the request. Only this step makes permits, and no
//! request reaches a cluster without one.

use fairlead_api::{ClusterId, Code, Failure, impersonation, resources::Role};
use fairlead_seam::{Caller, Grant};
use http::HeaderValue;

use crate::{
    front::{authenticate::AuthenticatedRequest, route::ClusterRequest},
    hub::Hub,
};

/// Proof that a caller may work in a cluster, with the names to impersonate there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permit {
    cluster: ClusterId,
    grant: Grant,
    names: ImpersonatedNames,
}

/// The names to impersonate in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImpersonatedNames {
    /// The caller's own user and groups.
    Caller {
        user: HeaderValue,
        groups: [HeaderValue; 2],
    },
    /// The user of an admin's `kubectl --as`. The agent decides whether to impersonate it.
    Other(HeaderValue),
}

impl Permit {
    /// Makes the permit from a module's grant.
    ///
    /// # Errors
    /// `FL-1202` for `kubectl --as` of a caller that is not an admin.
    fn new(
        cluster: &ClusterId,
        caller: &Caller,
        grant: &Grant,
        as_user: Option<HeaderValue>,
    ) -> Result<Self, Failure> {
        // The prefix keeps names of modules out of `system:`.
        let value = |text: String| {
            HeaderValue::try_from(text).map_err(|_| {
                Failure::because(
                    Code::Internal,
                    "the caller's name is not a valid header value",
                )
            })
        };
        let role = grant.role;
        let names = match as_user {
            Some(user) if role == Role::Admin => ImpersonatedNames::Other(user),
            Some(_) => return Err(Code::NoImpersonation.into()),
            None => ImpersonatedNames::Caller {
                user: value(impersonation::user(&caller.name))?,
                groups: [
                    value(impersonation::group(role))?,
                    value(impersonation::tenant_group(&grant.tenant, role))?,
                ],
            },
        };
        Ok(Permit {
            cluster: cluster.clone(),
            grant: grant.clone(),
            names,
        })
    }

    pub(crate) fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn names(&self) -> &ImpersonatedNames {
        &self.names
    }
}

/// A request that may go to its cluster.
pub(crate) struct PermittedRequest {
    pub(crate) permit: Permit,
    pub(crate) routed: ClusterRequest,
}

/// Authorizes the caller for the cluster of the request.
///
/// # Errors
/// `FL-1301`, `FL-1201`, `FL-1202`, `FL-5102`.
pub(crate) async fn authorize(
    hub: &Hub,
    authenticated: AuthenticatedRequest<ClusterRequest>,
) -> Result<PermittedRequest, Failure> {
    let AuthenticatedRequest {
        caller,
        mut request,
    } = authenticated;
    let authorizer = &hub.seam.authorizer;
    let grant = authorizer.authorize(&caller, &request.cluster).await?;
    request.inbound.record.set_grant(&grant);
    let permit = Permit::new(&request.cluster, &caller, &grant, request.as_user.take())?;
    let record = &request.inbound.record;
    record.set_tenant(&grant.tenant);
    record.report_start();
    Ok(PermittedRequest {
        permit,
        routed: request,
    })
}

#[cfg(test)]
mod tests;
