//! Repositories of deleted tenants and clusters: archived or deleted on their servers, with retries,
//! until the record of each one is done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fairlead_api::Failure;
use fairlead_registry::{Effective, template_of};
use fairlead_repositories::{DesiredRepo, GitServerError, RepoOwner, RetiredRepo, Retirement};
use fairlead_store::{
    Actor, Draft, StoreError,
    model::{DeletionPolicy, RetiredRepository},
    whole_millis,
};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{
    Repositories,
    desired::{desired_of_cluster, desired_of_tenant},
    opened::secrets_of_retired,
    reconciler::with_deadline,
    state::line,
};
use crate::reconciling::{STANDBY_POLL_INTERVAL, delays::retry_delay};

/// Next try of each record, and the failed tries so far.
type Tries = BTreeMap<String, (Instant, u32)>;

/// Never returns.
pub(super) async fn run(repositories: &Arc<Repositories>) {
    let mut revisions = repositories.store.watch();
    let mut tries = Tries::new();
    loop {
        revisions.mark_unchanged();
        if repositories.store.leads() {
            work(repositories, &mut tries).await;
        }
        let poll = Instant::now() + STANDBY_POLL_INTERVAL;
        let next = tries.values().map(|(due, _)| *due).min();
        tokio::select! {
            _ = revisions.changed() => {}
            () = sleep_until(next.map_or(poll, |next| next.min(poll))) => {}
        }
    }
}

/// Handles all records that are due.
async fn work(repositories: &Arc<Repositories>, tries: &mut Tries) {
    let view = repositories.store.view();
    tries.retain(|id, _| view.retired_repository(id).is_some());
    let due: Vec<_> = (view.retired_repositories())
        .map(|it| it.value.clone())
        .filter(|it| (tries.get(&it.id)).is_none_or(|(due, _)| *due <= Instant::now()))
        .collect();
    for retired in due {
        let id = retired.id.clone();
        let misses = tries.get(&id).map_or(0, |(_, misses)| *misses) + 1;
        let wait = match handle(repositories, retired).await {
            Ok(None) => {
                tries.remove(&id);
                continue;
            }
            Ok(Some(wait)) => wait,
            Err(failure) => {
                warn!(id, %failure, "retired repository not recorded");
                None
            }
        };
        let delay = wait.unwrap_or_else(|| retry_delay(misses));
        tries.insert(id, (Instant::now() + delay, misses));
    }
}

/// Archives or deletes one repository. `None` if that is done, else the wait that its server asks
/// for.
async fn handle(
    repositories: &Arc<Repositories>,
    retired: RetiredRepository,
) -> Result<Option<Option<Duration>>, Failure> {
    let is_in_use = is_in_use(repositories, &retired.url);
    let result = match is_in_use {
        true => {
            info!(owner = retired.owner, "repository kept for its new owner");
            Ok(())
        }
        false => retire(repositories, &retired).await,
    };
    let at = whole_millis(repositories.clock.now());
    let wait = match &result {
        Ok(()) => None,
        Err(GitServerError::Throttled { wait, .. }) => Some(Some(*wait)),
        Err(_) => Some(None),
    };
    let decide = move |draft: &mut Draft| settle(draft, &retired.id, &result, at);
    repositories.store.change(Actor::Hub, decide).await?;
    Ok(wait)
}

async fn retire(
    repositories: &Arc<Repositories>,
    retired: &RetiredRepository,
) -> Result<(), GitServerError> {
    let owner = retired.owner.parse().map(RepoOwner::Cluster);
    let owner = owner.or_else(|_| retired.owner.parse().map(RepoOwner::Tenant));
    let retirement = match retired.policy {
        DeletionPolicy::Delete => Retirement::Delete,
        DeletionPolicy::Archive => Retirement::Archive,
        DeletionPolicy::Retain => return Ok(()),
    };
    let Ok(owner) = owner else {
        return Ok(());
    };
    let Some(server) = repositories.git_servers.of_url(&retired.url) else {
        let cause = "no Git server of this hub serves this URL".to_owned();
        return Err(GitServerError::Rejected(cause));
    };
    let repo = RetiredRepo {
        owner,
        url: retired.url.clone(),
        api_secret: retired.api_secret_ref.clone(),
        has_access_token: retired.access_token_id.is_some(),
        retirement,
    };
    let called = async {
        let secrets = secrets_of_retired(repositories, retired)?;
        server.retire(&repo, &secrets).await
    };
    let result = with_deadline(server.as_ref(), called).await;
    let (owner, server) = (&retired.owner, server.name());
    match &result {
        Ok(()) => info!(%owner, server, policy = ?retired.policy, "repository retired"),
        Err(error) => warn!(%owner, server, %error, "repository not retired"),
    }
    result
}

/// True if a tenant or cluster has this repository now, under any form of its URL.
fn is_in_use(repositories: &Repositories, url: &str) -> bool {
    let Some(server) = repositories.git_servers.of_url(url) else {
        return false;
    };
    let retired = server.canonical_url(url);
    let view = repositories.store.view();
    let is_it = |desired: DesiredRepo| server.url_of(&desired) == retired;
    let unmanaged = |url: &str| server.canonical_url(url) == retired;
    let of_tenants = view.tenants().any(|record| {
        let repo = record.value.git_repo.as_ref();
        let desired = desired_of_tenant(&record.value, [].into_iter());
        desired.is_some_and(is_it) || repo.and_then(|it| it.url.as_deref()).is_some_and(unmanaged)
    });
    of_tenants
        || view.clusters().any(|record| {
            let template = template_of(&view, &record.value.tenant);
            let url = Effective::of(&record.value, template).repo_url();
            desired_of_cluster(&record.value, template).is_some_and(is_it)
                || url.is_some_and(unmanaged)
        })
}

fn settle(
    draft: &mut Draft,
    id: &str,
    result: &Result<(), GitServerError>,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    let Some(record) = draft.retired_repository(id) else {
        return Ok(());
    };
    match result {
        Ok(()) => draft.delete_retired_repository(id),
        Err(error) => {
            let mut retired = record.value.clone();
            retired.reason = Some(line(&error.to_string()));
            retired.tried = Some(at);
            draft.put_retired_repository(retired);
            Ok(())
        }
    }
}
