//! Progress of a rotation: agents with the newest CA, and those without.

use fairlead_api::{
    CaPin, ClusterId,
    resources::{CaBehind, CaInfo, CaPhase, CaStatus, RetiredCaInfo},
};
use fairlead_certs::Authority;
use fairlead_store::{
    Store, View,
    model::{AgentCa, Cluster, RetiredCa},
};

use time::OffsetDateTime;

use crate::authorities::CaSet;
use crate::ca_error::CaError;

/// Clusters with an enrolled agent that a retirement of the old authority would cut off.
pub(super) fn behind(view: &View, newest: CaPin) -> Vec<ClusterId> {
    let enrolled = view.clusters().filter(|it| is_enrolled(&it.value));
    let behind = enrolled.filter(|it| !is_ready(&it.value, newest));
    behind.map(|it| it.value.id.clone()).collect()
}

fn is_enrolled(cluster: &Cluster) -> bool {
    cluster.binding.agent_key.is_some()
}

fn is_ready(cluster: &Cluster, newest: CaPin) -> bool {
    trusts(cluster, newest) && has_identity_of(cluster, newest)
}

fn trusts(cluster: &Cluster, newest: CaPin) -> bool {
    reported(cluster).is_some_and(|ca| ca.trusted == newest)
}

fn has_identity_of(cluster: &Cluster, newest: CaPin) -> bool {
    reported(cluster).is_some_and(|ca| ca.issuer == newest)
}

fn reported(cluster: &Cluster) -> Option<&AgentCa> {
    cluster.binding.ca.as_ref()
}

/// Status of the rotation. Without one, every agent has the only authority.
pub(super) fn status(store: &Store, set: &CaSet) -> Result<CaStatus, CaError> {
    let view = store.view();
    let next = set.next.as_ref();
    let newest = next.map(|next| next.pin);
    let enrolled: Vec<_> = view
        .clusters()
        .filter(|it| is_enrolled(&it.value))
        .collect();
    let count = |has: fn(&Cluster, CaPin) -> bool| match newest {
        None => enrolled.len(),
        Some(pin) => enrolled.iter().filter(|it| has(&it.value, pin)).count(),
    };
    let behind = enrolled.iter().filter_map(|it| {
        let newest = newest.filter(|pin| !is_ready(&it.value, *pin))?;
        let observed = store.observed_of(it);
        Some(CaBehind {
            cluster: it.value.id.clone(),
            tenant: it.value.tenant.clone(),
            state: observed.status.state,
            trusting: trusts(&it.value, newest),
            last_seen: observed.status.last_seen,
        })
    });
    let mut authorities = vec![info(&set.current, next.is_none(), true)];
    if let Some(next) = next.and_then(|next| next.authority.as_ref()) {
        authorities.push(info(next, true, false));
    }
    let retired = view.authorities().map(|hub| hub.value.retired.clone());
    let shown = |it: RetiredCa| RetiredCaInfo {
        pin: it.pin,
        at: it.at,
        left_behind: it.left_behind,
    };
    Ok(CaStatus {
        phase: match next {
            None => CaPhase::Stable,
            Some(_) => CaPhase::Rotating,
        },
        authorities,
        unconfirmed_restore: view
            .authorities()
            .filter(|hub| hub.value.epoch != hub.value.confirmed_epoch)
            .and_then(|hub| OffsetDateTime::from_unix_timestamp(hub.value.epoch.into()).ok()),
        retired: retired.unwrap_or_default().into_iter().map(shown).collect(),
        enrolled: enrolled.len(),
        trusting: count(trusts),
        identified: count(has_identity_of),
        behind: behind.collect(),
    })
}

fn info(authority: &Authority, signs_identities: bool, signs_hub: bool) -> CaInfo {
    CaInfo {
        pin: authority.pin(),
        signs_identities,
        signs_hub,
        not_before: authority.not_before(),
        not_after: authority.not_after(),
        certificate: authority.certificate_pem().to_owned(),
    }
}
