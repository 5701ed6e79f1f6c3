//! Quotas of tenants, checked in the writer's turn: a decision counts all earlier changes of all hubs.

use std::collections::BTreeSet;

use fairlead_api::{ClusterId, TenantId};

use crate::{
    draft::Draft,
    exceeded_quota::{ExceededQuota, QuotaKind},
    journal::Actor,
    quota_terms::{ChangeCount, QuotaTerms},
    view::View,
};

/// Checks the quotas of all tenants that the draft touches, and counts the change. The hub itself and agents have none.
pub(super) fn check(
    draft: &mut Draft,
    actor: &Actor,
    terms: QuotaTerms,
) -> Result<(), ExceededQuota> {
    if !matches!(actor, Actor::Caller { .. }) {
        return Ok(());
    }
    for tenant in touched(draft) {
        let own = draft.tenant(&tenant).and_then(|it| it.value.quotas);
        let quotas = own.unwrap_or_default().or(terms.defaults);
        if quotas.is_empty() {
            continue;
        }
        let exceeded = |kind, limit| ExceededQuota {
            tenant: tenant.clone(),
            kind,
            limit,
        };
        for (kind, limit, count) in [
            (QuotaKind::Clusters, quotas.clusters, clusters as Count),
            (QuotaKind::Tokens, quotas.tokens, tokens),
            (QuotaKind::Catalogs, quotas.catalogs, catalogs),
        ] {
            // A lowered quota refuses growth only.
            if let Some(limit) = limit
                && let now = count(&draft.view, &tenant)
                && now > limit as usize
                && now > count(&draft.base, &tenant)
            {
                return Err(exceeded(kind, limit));
            }
        }
        if let Some(limit) = quotas.catalog_bytes
            && let mut changed = draft.catalogs.iter()
            && changed.any(|(id, body)| {
                body.len() > limit as usize && owner(&draft.view, id) == Some(&tenant)
            })
        {
            return Err(exceeded(QuotaKind::CatalogBytes, limit));
        }
        if let Some(limit) = quotas.changes_per_minute {
            let part = limit.div_ceil(terms.hubs.max(1));
            let count = draft.view.change_counts.get(&tenant).copied();
            let count = count.filter(|it| it.minute == terms.minute);
            let changes = count.unwrap_or_default().changes;
            if changes >= part {
                return Err(exceeded(QuotaKind::Changes, limit));
            }
            let count = ChangeCount {
                minute: terms.minute,
                changes: changes + 1,
            };
            draft.view.change_counts.insert(tenant, count);
        }
    }
    Ok(())
}

type Count = fn(&View, &TenantId) -> usize;

fn clusters(view: &View, tenant: &TenantId) -> usize {
    view.clusters_of(tenant).count()
}

fn tokens(view: &View, tenant: &TenantId) -> usize {
    let is_own = |it: &crate::model::Token| match &it.cluster {
        Some(cluster) => owner(view, cluster) == Some(tenant),
        None => it.tenant.as_ref() == Some(tenant),
    };
    view.tokens().filter(|it| is_own(&it.value)).count()
}

fn catalogs(view: &View, tenant: &TenantId) -> usize {
    let clusters = view.clusters_of(tenant);
    clusters
        .filter(|it| view.catalog(&it.value.id).is_some())
        .count()
}

fn owner<'a>(view: &'a View, cluster: &ClusterId) -> Option<&'a TenantId> {
    view.cluster(cluster).map(|it| &it.value.tenant)
}

/// Tenants whose resources the draft changes, after the change.
fn touched(draft: &Draft) -> BTreeSet<TenantId> {
    let clusters = draft.clusters.iter().chain(draft.catalogs.keys());
    let clusters = clusters.filter_map(|id| owner(&draft.view, id).or(owner(&draft.base, id)));
    let tokens = draft.tokens.iter().filter_map(|id| {
        let token = draft.view.token(id).or(draft.base.token(id))?;
        let of_cluster = token.value.cluster.as_ref();
        let of_cluster = of_cluster.and_then(|id| owner(&draft.view, id));
        of_cluster.or(token.value.tenant.as_ref())
    });
    let all = draft.tenants.iter().chain(clusters).chain(tokens);
    all.cloned().collect()
}
