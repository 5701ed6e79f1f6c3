//! `fairlead doctor`: walks the path of the agent to its hubs and to its API server, once, with the agent's own dialer,
//! identity and settings. It spends no token, registers no session and stores nothing.

mod cluster;
mod identity;
mod path;

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure, HubUrl, TenantId,
    checkup::{CheckSection, CheckedStage, Checkup},
};
use fairlead_apiserver::{ApiCredentials, Upstream};
use fairlead_dialer::MemoryBudget;
use fairlead_runtime::metrics::Registry;
use tokio::time::Instant;

use crate::{
    config::{Config, IdentityLocation},
    home,
    identity::{hubs::StoredHubs, store::StoredIdentity},
    link::dial::HubDialer,
    metrics::Metrics,
};
use identity::Proof;

const NO_HUB: &str =
    "Give the join string with `--join`, or the folder of an enrolled agent with `--state`.";

/// Checks everything between this agent and its hubs. `hold`: time to keep an idle session open.
///
/// # Errors
///
/// Mistakes in the configuration.
pub async fn check(config: Config, hold: Option<Duration>) -> Result<Checkup, Failure> {
    let proxy = home::proxy_source(&config)?;
    let metrics = Metrics::new(&Registry::new(), &config.version);
    let metrics = metrics.map_err(|error| Failure::because(Code::Internal, error))?;
    let upstream = Arc::new(Upstream::new(ApiCredentials::new(&config.target)));
    let mut checkup = Checkup::default();

    let since = Instant::now();
    let stored = match home::store(&config, &upstream).load().await {
        Ok(stored) => stored,
        Err(error) => {
            checkup.sections.push(unread_identity(since, error.into()));
            StoredIdentity::default()
        }
    };
    let learned = stored.hubs.clone().filter(|_| config.learn_hubs);
    let proof = Proof::of(&config, stored);
    let hubs = hubs(&config, &proof, learned);
    let namespace = home::own_namespace(&config);
    let keeps_secret = matches!(config.state, IdentityLocation::Secret { .. });
    let dialer = HubDialer::new(
        config.join,
        (Vec::new(), None),
        config.ca_file,
        proxy.clone(),
        config.version,
        (metrics, MemoryBudget::of(config.session_memory)),
        None,
    );
    let mut tenant = proof.tenant();
    if !checkup.sections.is_empty() {
        // Without its identity, the agent dials no hub.
        checkup.sections.extend(hubs.iter().map(path::not_tried));
    } else if hubs.is_empty() {
        let mut section = CheckSection::new("hub");
        let failure = Failure::new(Code::NotEnrolled).next(NO_HUB);
        section.add("identity", Duration::ZERO, Err(failure));
        checkup.sections.push(section);
    } else {
        for hub in hubs {
            let way = proxy.explain(&hub).await;
            let walk = path::Walk::new(dialer.for_doctor(hub.clone()), &proof, hold);
            let (mut section, found) = walk.run(hub.to_string()).await;
            section.way = Some(way);
            checkup.sections.push(section);
            tenant = found.or(tenant);
        }
    }
    let reached = checkup.sections.iter().any(|it| !it.has_failed());
    let cluster = cluster::ClusterCheck {
        upstream: &upstream,
        target: config.target.to_string(),
        tenant: tenant.as_ref(),
        namespace: &namespace,
        keeps_secret,
    };
    checkup.sections.push(match reached {
        true => cluster.run().await,
        false => cluster.not_tried(),
    });
    Ok(checkup)
}

fn unread_identity(since: Instant, failure: Failure) -> CheckSection {
    let mut section = CheckSection::new("identity");
    section.add("identity", since.elapsed(), Err(failure));
    section
}

/// Hubs that the agent dials.
fn hubs(config: &Config, proof: &Proof, learned: Option<StoredHubs>) -> Vec<HubUrl> {
    let mut hubs = learned
        .filter(|learned| proof.is_of(&learned.join))
        .map_or_else(Vec::new, |learned| learned.hubs);
    let configured = match config.hubs.is_empty() {
        true => proof.hubs(),
        false => &config.hubs,
    };
    for hub in configured {
        if !hubs.contains(hub) {
            hubs.push(hub.clone());
        }
    }
    hubs
}

/// Stages that follow a failed one.
fn all_not_tried(stages: &[&'static str]) -> impl Iterator<Item = CheckedStage> {
    stages.iter().map(|stage| CheckedStage::not_tried(stage))
}

/// Tenant of the cluster, if known.
type KnownTenant = Option<TenantId>;
