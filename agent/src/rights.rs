//! Rights that the agent needs in its cluster, checked by SelfSubjectAccessReviews.

use std::{fmt, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, TenantId, impersonation};
use fairlead_apiserver::Upstream;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use crate::{
    context::{AgentContext, events::AgentEvent},
    identity::{Identity, secret::SECRET_NAME},
};

const REVIEWS_PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Delay of the check after the start: requests of people come first.
const CHECK_DELAY: Duration = Duration::from_secs(5);
/// Retry interval while the API server does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A right: verb and resource, and the names that it is restricted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededRight {
    group: &'static str,
    resource: &'static str,
    verb: &'static str,
    name: Option<String>,
    namespace: Option<String>,
}

impl NeededRight {
    const fn new(verb: &'static str, resource: &'static str) -> Self {
        NeededRight {
            group: "",
            resource,
            verb,
            name: None,
            namespace: None,
        }
    }

    fn named(self, name: impl Into<String>) -> Self {
        NeededRight {
            name: Some(name.into()),
            ..self
        }
    }

    fn within(self, namespace: &str) -> Self {
        NeededRight {
            namespace: Some(namespace.to_owned()),
            ..self
        }
    }

    /// The same right in constrained impersonation (KEP-5284), which manifests may grant instead.
    fn constrained(&self) -> Option<Self> {
        (self.verb == "impersonate").then(|| NeededRight {
            group: "authentication.k8s.io",
            verb: "impersonate:user-info",
            ..self.clone()
        })
    }

    fn review(&self) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "group": self.group,
                "resource": self.resource,
                "verb": self.verb,
                "name": self.name.as_deref().unwrap_or_default(),
                "namespace": self.namespace.as_deref().unwrap_or_default(),
            }},
        })
    }
}

impl fmt::Display for NeededRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// Rights of an agent of this tenant. `secret_in`: namespace of the Secret with its identity.
pub(crate) fn needed(tenant: Option<&TenantId>, secret_in: Option<&str>) -> Vec<NeededRight> {
    let groups = match tenant {
        Some(tenant) => impersonation::groups(tenant),
        None => Vec::new(),
    };
    let groups = groups.into_iter();
    let mut rights = vec![
        NeededRight::new("impersonate", "users"),
        NeededRight::new("get", "namespaces").named("kube-system"),
    ];
    rights.extend(groups.map(|group| NeededRight::new("impersonate", "groups").named(group)));
    if let Some(namespace) = secret_in {
        let secret = |verb| NeededRight::new(verb, "secrets").within(namespace);
        rights.extend(["get", "update", "patch"].map(|verb| secret(verb).named(SECRET_NAME)));
        rights.push(secret("create"));
    }
    rights
}

/// Checks these rights; returns their number as text.
///
/// # Errors
///
/// `FL-1512` with the missing rights; the failure of a review.
pub(crate) async fn check(upstream: &Upstream, needed: &[NeededRight]) -> Result<String, Failure> {
    let mut missing = Vec::new();
    for right in needed {
        let granted = is_granted(upstream, right).await?
            || match right.constrained() {
                Some(other) => is_granted(upstream, &other).await?,
                None => false,
            };
        if !granted {
            missing.push(right.to_string());
        }
    }
    match missing.is_empty() {
        true => Ok(format!("all {} granted", needed.len())),
        false => Err(Failure::because(Code::RightsMissing, missing.join(", "))),
    }
}

async fn is_granted(upstream: &Upstream, right: &NeededRight) -> Result<bool, Failure> {
    let review = right.review().to_string();
    let answered = upstream.request(Method::POST, REVIEWS_PATH, Some(review));
    let (status, body) = answered.await?;
    if status != StatusCode::CREATED {
        let cause = format!("the API server answered {status} to a SelfSubjectAccessReview");
        return Err(Failure::because(Code::CheckFailed, cause));
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok(body.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

/// Logs missing rights once, and writes an Event.
pub(crate) async fn report(
    context: Arc<AgentContext>,
    identity: watch::Receiver<Option<Arc<Identity>>>,
    (namespace, keeps_secret): (String, bool),
) {
    let process = context.process.clone();
    tokio::select! {
        () = check_once(&context, identity, &namespace, keeps_secret) => {}
        () = process.draining() => {}
    }
}

async fn check_once(
    context: &AgentContext,
    mut identity: watch::Receiver<Option<Arc<Identity>>>,
    namespace: &str,
    keeps_secret: bool,
) {
    let Ok(tenant) = identity.wait_for(Option::is_some).await.map(|it| {
        let identity = it.as_ref();
        identity.map(|identity| identity.tenant.clone())
    }) else {
        return;
    };
    sleep(CHECK_DELAY).await;
    let needed = needed(tenant.as_ref(), keeps_secret.then_some(namespace));
    loop {
        match check(&context.upstream, &needed).await {
            Err(failure) if failure.code == Code::RightsMissing => {
                let Failure { code, cause, .. } = &failure;
                let next = failure.next_step();
                warn!(%code, cause, next, "rights in the cluster are missing");
                let message = format!("{code}: {cause}. Next: {next}");
                let event = AgentEvent::warning("RightsMissing", message);
                return context.write_event(namespace, &event).await;
            }
            // A cluster without these reviews cannot be checked.
            Ok(_) => return,
            Err(failure) if failure.code == Code::CheckFailed => return,
            Err(_) => sleep(RETRY_INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_install_manifest() {
        let tenant = "t-acme".parse().unwrap();
        let shown = needed(Some(&tenant), Some("fairlead"));
        let shown: Vec<String> = shown.iter().map(ToString::to_string).collect();
        for right in [
            "impersonate users",
            "impersonate groups fairlead:admin",
            "impersonate groups fairlead:tenant:t-acme:viewer",
            "get namespaces kube-system",
            "patch secrets fairlead-identity in fairlead",
            "create secrets in fairlead",
        ] {
            assert!(shown.iter().any(|it| it == right), "{right}: {shown:?}");
        }
        let outside = needed(None, None);
        assert_eq!(outside.len(), 2);
        let constrained = outside[0].constrained().unwrap();
        assert_eq!(constrained.to_string(), "impersonate:user-info users");
        assert_eq!(outside[1].constrained(), None);
    }
}
