//! Requests for roles as documents of the API.

use fairlead_api::resources::{AccessDecision, AccessRequest};
use fairlead_store::model::{AccessAct, AccessGrant};
use time::OffsetDateTime;

pub(super) fn shown(access: &AccessGrant, now: OffsetDateTime) -> AccessRequest {
    let subject = access.holder.subject.clone();
    let (issuer, subject) = subject.unzip();
    AccessRequest {
        id: access.id.clone(),
        state: access.state(now),
        requester: access.holder.name.clone(),
        token: access.holder.token.clone(),
        issuer,
        subject,
        cluster: access.cluster.clone(),
        tenant: access.tenant.clone(),
        role: access.role,
        namespaces: access
            .namespaces
            .iter()
            .cloned()
            .map(String::from)
            .collect(),
        duration_seconds: access.seconds,
        reason: access.reason.clone(),
        emergency: access.is_emergency,
        created: access.created,
        until: access.until(),
        approved: access.approved.as_ref().map(decision),
        denied: access.denied.as_ref().map(decision),
        revoked: access.revoked.as_ref().map(decision),
        reviewed: access.reviewed.as_ref().map(decision),
    }
}

fn decision(act: &AccessAct) -> AccessDecision {
    AccessDecision {
        by: act.by.clone(),
        at: act.at,
        comment: act.comment.clone(),
    }
}
