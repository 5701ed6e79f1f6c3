//! The step from [`Caller`] to [`Permit`], before any work for the request. Only this step makes permits, and no
//! request reaches a cluster without one.

use std::{net::SocketAddr, sync::Arc};

use fairlead_api::{ClusterId, Code, Failure, resources::Role};
use fairlead_seam::{AuthorizeError, Caller, Grant, NamedService};
use http::HeaderValue;

use crate::{
    front::{authenticate::AuthenticatedRequest, caller_names::CallerNames, route::ClusterRequest},
    hub::Hub,
};

/// Proof that a caller may work in a cluster, with the names to impersonate there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permit {
    cluster: ClusterId,
    grant: Arc<Grant>,
    names: ImpersonatedNames,
}

/// The names to impersonate in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImpersonatedNames {
    /// The caller's own user and groups.
    Caller(Arc<CallerNames>),
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
        caller: &Arc<Caller>,
        grant: &Arc<Grant>,
        as_user: Option<HeaderValue>,
    ) -> Result<Self, Failure> {
        let names = match as_user {
            Some(user) if grant.role == Some(Role::Admin) => ImpersonatedNames::Other(user),
            Some(_) => return Err(Code::NoImpersonation.into()),
            None => ImpersonatedNames::Caller(CallerNames::of(caller, grant)?),
        };
        Ok(Permit {
            cluster: cluster.clone(),
            grant: Arc::clone(grant),
            names,
        })
    }

    pub(crate) fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    pub(crate) fn into_parts(self) -> (ClusterId, ImpersonatedNames) {
        (self.cluster, self.names)
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
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
/// `FL-1301`, `FL-1201`, `FL-1202`, `FL-1423`, `FL-5102`.
pub(crate) async fn authorize(
    hub: &Hub,
    authenticated: AuthenticatedRequest<ClusterRequest>,
) -> Result<PermittedRequest, Failure> {
    let AuthenticatedRequest {
        caller,
        mut request,
    } = authenticated;
    let authorizer = &hub.seam.authorizer;
    let grant = match authorizer.known_grant(&caller, &request.cluster) {
        Some(grant) => grant,
        None => Arc::new(authorizer.authorize(&caller, &request.cluster).await?),
    };
    let is_allowed = check_kind(&caller, &grant, request.tcp.is_some());
    // Before the record keeps the grant, which makes it look like one that a module keeps.
    let permit = Permit::new(&request.cluster, &caller, &grant, request.as_user.take());
    let record = &request.inbound.record;
    record.set_grant(&used_part(grant, request.tcp.is_some()));
    is_allowed?;
    let permit = permit?;
    record.report_start();
    Ok(PermittedRequest {
        permit,
        routed: request,
    })
}

/// Authorizes a connection of a client to a named service. The caller is the service itself: its record, made by an admin of
/// the cluster, is the decision, and its networks admit the client.
///
/// # Errors
/// `FL-1427` for a client from elsewhere, `FL-1407` beyond the limits of callers, `FL-1205` for a service that has just ended,
/// and those of [`authorize`].
pub(crate) async fn authorize_service(
    hub: &Hub,
    service: &Arc<NamedService>,
    request: ClusterRequest,
) -> Result<PermittedRequest, Failure> {
    let record = &request.inbound.record;
    check_client(service, request.inbound.connection.peer)?;
    // Locks of users and tenants concern services, too.
    let caller = hub.seam.authenticator.recheck(&service.caller()).await?;
    let caller = Arc::new(caller);
    record.set_service_caller(&caller);
    record.keep_slot(hub.caller_limit.acquire(&caller)?);
    let authorizer = &hub.seam.authorizer;
    let grant = Arc::new(authorizer.authorize(&caller, &request.cluster).await?);
    check_kind(&caller, &grant, true)?;
    // The table of running requests has the record by now, so a later end of the service is noticed.
    hub.services.check(service)?;
    let permit = Permit::new(&request.cluster, &caller, &grant, None)?;
    record.set_grant(&grant);
    record.report_start();
    Ok(PermittedRequest {
        permit,
        routed: request,
    })
}

/// Checks that a service admits clients with this address.
///
/// # Errors
/// `FL-1427`
pub(crate) fn check_client(service: &NamedService, client: SocketAddr) -> Result<(), Failure> {
    let client = client.ip().to_canonical();
    if service.admits(client) {
        return Ok(());
    }
    let cause = format!("{client} is in no network of the service {}", service.name);
    Err(Failure::because(Code::ServiceClientRefused, cause))
}

/// The part of the grant that a request of this kind needs to go on.
fn used_part(grant: Arc<Grant>, is_tcp: bool) -> Arc<Grant> {
    match is_tcp {
        true => Arc::new(grant.for_tcp()),
        // An admin's role includes TCP connections, and ends with them.
        false if grant.tcp && grant.role != Some(Role::Admin) => Arc::new(grant.for_api()),
        false => grant,
    }
}

/// Checks that the grant covers requests of this kind: a TCP connection, or a request to the API server.
fn check_kind(caller: &Caller, grant: &Grant, is_tcp: bool) -> Result<(), Failure> {
    match is_tcp {
        true if grant.tcp => Ok(()),
        true => {
            let detail = match grant.role {
                Some(role) => format!("{:?} has the role {role} in this cluster", caller.name),
                None => format!("{:?} has a role in namespaces of this cluster", caller.name),
            };
            Err(Failure::because(Code::TcpNotAllowed, detail))
        }
        false if grant.reaches_api() => Ok(()),
        false => Err(AuthorizeError::NotAllowed {
            caller: caller.name.clone(),
            role: caller.role,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests;
