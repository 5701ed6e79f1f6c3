//! Minutes of load and faults before a real Prometheus: each alert fires for its fault, and no other; each query of the
//! dashboards returns data.
//!
//! All times of the rules are a sixtieth of the real ones. `FAIRLEAD_E2E_MINUTES` sets the least length of the load (10), over
//! which the faults are spread.

mod certified_hub;
mod faults;
mod frail_faults;
mod frail_hub;
mod narrow_relay;
mod pictures;
mod rules;
mod slow_relay;
mod world;

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::setting;
use time::OffsetDateTime;
use tokio::time::Instant;

use self::{faults::LOAD_INTERVAL, world::World};

const DEFAULT_MINUTES: u32 = 10;
const ONE_MINUTE: Duration = Duration::from_secs(60);
/// A panic is a bug, and no request or setting causes one on purpose. Its unit test by promtool shows that the alert fires.
const WITHOUT_FAULT: [&str; 1] = ["FairleadModulePanics"];

#[derive(Debug, Clone, Copy)]
enum Fault {
    WrongTokens,
    BrokenHandshakes,
    FarCluster,
    DisconnectedAgent,
    UnreachableApiServer,
    LeftOutRows,
    SlowUploads,
    MissingLink,
    FewFiles,
    ClonedIdentity,
    KilledAgents,
    KilledHub,
    UnstableLinks,
    FullAuditDisk,
    LockedDatabase,
    SlowDatabase,
    FullSessionMemory,
    ExpiringIdentity,
    ExpiringCertificate,
    HaltedRollout,
    Emergency,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make observe"]
async fn each_alert_fires_for_its_fault_and_dashboards_have_data() -> anyhow::Result<()> {
    let minutes: u32 = match setting("FAIRLEAD_E2E_MINUTES") {
        Some(text) => text.parse().context("FAIRLEAD_E2E_MINUTES")?,
        None => DEFAULT_MINUTES,
    };
    let begin = OffsetDateTime::now_utc().unix_timestamp();
    let mut world = World::start().await?;
    let load = world.load("a", LOAD_INTERVAL)?;
    let faults = faults(&mut world, ONE_MINUTE * minutes).await;
    drop(load);
    let end = OffsetDateTime::now_utc().unix_timestamp();
    // Pictures also show why an alert is missing.
    let data = world.dashboards_have_data((begin, end)).await;
    faults?;
    data?;
    world.all_fired(begin, &WITHOUT_FAULT).await
}

/// Causes all faults, each after its share of the time, and checks that no alert fires between them. A failure names all
/// faults that failed.
async fn faults(world: &mut World, time: Duration) -> anyhow::Result<()> {
    let (begin, count) = (Instant::now(), u32::try_from(Fault::ALL.len())?);
    let mut failures = Vec::new();
    for (done, fault) in (0..count).zip(Fault::ALL) {
        let healthy = world.stays_healthy(begin + time * done / count).await;
        let caused = match healthy {
            Ok(()) => fault.cause(world).await,
            Err(error) => Err(error.context("before")),
        };
        if let Err(error) = caused {
            eprintln!("failed: {fault:?}: {error:#}");
            failures.push(format!("{fault:?}: {error:#}"));
            // The next fault begins without the alerts of this one, as far as they end.
            let _ = world.recovers().await;
        }
    }
    ensure!(failures.is_empty(), "{failures:#?}");
    world.stays_healthy(begin + time).await
}

impl Fault {
    const ALL: [Fault; 21] = [
        Fault::FullAuditDisk,
        Fault::WrongTokens,
        Fault::LockedDatabase,
        Fault::BrokenHandshakes,
        Fault::SlowDatabase,
        Fault::FarCluster,
        Fault::FullSessionMemory,
        Fault::DisconnectedAgent,
        Fault::ExpiringIdentity,
        Fault::UnreachableApiServer,
        Fault::ExpiringCertificate,
        Fault::LeftOutRows,
        Fault::HaltedRollout,
        Fault::SlowUploads,
        Fault::Emergency,
        Fault::MissingLink,
        Fault::FewFiles,
        Fault::ClonedIdentity,
        Fault::KilledAgents,
        Fault::KilledHub,
        Fault::UnstableLinks,
    ];

    async fn cause(self, world: &mut World) -> anyhow::Result<()> {
        match self {
            Fault::WrongTokens => world.wrong_tokens().await,
            Fault::BrokenHandshakes => world.broken_handshakes().await,
            Fault::FarCluster => world.far_cluster().await,
            Fault::DisconnectedAgent => world.disconnected_agent().await,
            Fault::UnreachableApiServer => world.unreachable_api_server().await,
            Fault::LeftOutRows => world.left_out_rows().await,
            Fault::SlowUploads => world.slow_uploads().await,
            Fault::MissingLink => world.missing_link().await,
            Fault::FewFiles => world.few_files().await,
            Fault::ClonedIdentity => world.cloned_identity().await,
            Fault::KilledAgents => world.killed_agents().await,
            Fault::KilledHub => world.killed_hub().await,
            Fault::UnstableLinks => world.unstable_links().await,
            Fault::FullAuditDisk => world.full_audit_disk().await,
            Fault::LockedDatabase => world.locked_database().await,
            Fault::SlowDatabase => world.slow_database().await,
            Fault::FullSessionMemory => world.full_session_memory().await,
            Fault::ExpiringIdentity => world.expiring_identity().await,
            Fault::ExpiringCertificate => world.expiring_certificate().await,
            Fault::HaltedRollout => world.halted_rollout().await,
            Fault::Emergency => world.emergency().await,
        }
    }
}
