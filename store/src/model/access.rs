//! Roles for a time: requested by one person and approved by another, or taken in an emergency.

use fairlead_api::{
    ClusterId, TenantId,
    resources::{AccessState, Role},
    site::OperatorNamespace,
};
use fairlead_certs::Registration;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

/// Time for a decision about a request.
const DECISION_TIME: Duration = Duration::hours(24);

/// A role in one cluster for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessGrant {
    /// Random id.
    pub id: String,
    /// Requester, who alone gets the role.
    pub holder: AccessHolder,
    /// The cluster.
    pub cluster: ClusterId,
    /// Tenant of the cluster at the time of the request. A move ends the role.
    pub tenant: TenantId,
    /// Registration of the cluster. A new cluster of the same id has another one.
    #[serde(with = "super::cluster::registration")]
    pub registration: Registration,
    /// The role.
    pub role: Role,
    /// Namespaces of the role; empty: the whole cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<OperatorNamespace>,
    /// Time from approval to end, in seconds.
    pub seconds: u64,
    /// Reason, in the words of the holder.
    pub reason: String,
    /// Taken without approval, and to be reviewed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_emergency: bool,
    /// Time of the request.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Approval, or taking in an emergency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<AccessAct>,
    /// Denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<AccessAct>,
    /// End ahead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<AccessAct>,
    /// Review of an emergency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed: Option<AccessAct>,
}

/// Holder of an [`AccessGrant`]: an API token, or a subject of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessHolder {
    /// Name of the caller.
    pub name: String,
    /// Id of the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Issuer and subject (`sub`) of a caller without API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<(String, String)>,
}

impl AccessHolder {
    /// Key of the credential. A name alone may be given to somebody else.
    #[must_use]
    pub fn key(&self) -> String {
        match (&self.token, &self.subject) {
            (Some(token), _) => format!("token/{token}"),
            (None, Some((issuer, sub))) => format!("subject/{issuer}\n{sub}"),
            (None, None) => format!("name/{}", self.name),
        }
    }
}

/// Act of a person on an [`AccessGrant`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessAct {
    /// Name of the person.
    pub by: String,
    /// Time of the act.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Comment of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl AccessGrant {
    /// End of the role; `None` if nobody approved it.
    #[must_use]
    pub fn until(&self) -> Option<OffsetDateTime> {
        let seconds = i64::try_from(self.seconds).unwrap_or(i64::MAX);
        let approved = self.approved.as_ref()?;
        Some(approved.at.saturating_add(Duration::seconds(seconds)))
    }

    /// State at this time.
    #[must_use]
    pub fn state(&self, now: OffsetDateTime) -> AccessState {
        if self.denied.is_some() {
            return AccessState::Denied;
        }
        if self.revoked.is_some() {
            return AccessState::Revoked;
        }
        let end = self.until().unwrap_or(self.created + DECISION_TIME);
        match (now < end, self.approved.is_some()) {
            (false, _) => AccessState::Expired,
            (true, true) => AccessState::Active,
            (true, false) => AccessState::Pending,
        }
    }

    /// Time after which nothing about it changes any more; `None` while something is left to do.
    #[must_use]
    pub fn settled(&self) -> Option<OffsetDateTime> {
        if self.is_emergency {
            return self.reviewed.as_ref().map(|it| it.at.max(self.created));
        }
        let act = self.denied.as_ref().or(self.revoked.as_ref());
        let end = act.map(|it| it.at).or_else(|| self.until());
        Some(end.unwrap_or(self.created + DECISION_TIME))
    }
}
