//! Minutes of load and faults before a real Prometheus: each alert fires for its fault, and no other; each query of the
//! dashboards returns data.
//!
//! All times of the rules are a sixtieth of the real ones.

mod faults;
mod narrow_relay;
mod pictures;
mod rules;
mod slow_relay;
mod world;

use time::OffsetDateTime;

use self::{faults::LOAD_INTERVAL, world::World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make observe"]
async fn each_alert_fires_for_its_fault_and_dashboards_have_data() -> anyhow::Result<()> {
    let begin = OffsetDateTime::now_utc().unix_timestamp();
    let mut world = World::start().await?;
    let load = world.load("a", LOAD_INTERVAL)?;
    let faults = faults(&mut world).await;
    drop(load);
    let end = OffsetDateTime::now_utc().unix_timestamp();
    // Pictures also show why an alert is missing.
    let data = world.dashboards_have_data((begin, end)).await;
    faults.and(data)
}

async fn faults(world: &mut World) -> anyhow::Result<()> {
    world.stays_healthy().await?;
    world.wrong_tokens().await?;
    world.broken_handshakes().await?;
    world.far_cluster().await?;
    world.disconnected_agent().await?;
    world.unreachable_api_server().await?;
    world.left_out_rows().await?;
    world.slow_uploads().await?;
    world.missing_link().await?;
    world.few_files().await?;
    world.cloned_identity().await?;
    world.killed_agents().await?;
    world.killed_hub().await?;
    world.unstable_links().await?;
    world.stays_healthy().await
}
