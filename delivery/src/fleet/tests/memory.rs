//! Memory of 10,000 clusters with 50 bundles. Run it alone in release mode:
//! `cargo test --release -p fairlead-delivery --lib fleet_of_500_000 -- --ignored --nocapture`.

use fairlead_api::delivery::{DeploymentReports, DeploymentState};
use serde_json::json;

use super::hub::{TestHub, id, state_of};

const MEASURED_CLUSTERS: usize = 10_000;
const MEASURED_BUNDLES: usize = 50;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn fleet_of_500_000_deployments_is_measured() {
    let mut hub = TestHub::with(MEASURED_CLUSTERS).await;
    let empty = resident_kib();
    for bundle in 0..MEASURED_BUNDLES {
        let name = format!("b-{bundle}");
        let all = json!({"rollout": {"waves": [{"name": "all", "maxUnavailable": "100%"}]}});
        hub.deploy_as(&name, all).await;
    }
    let released = resident_kib();
    let start = std::time::SystemTime::now();
    for number in 0..MEASURED_CLUSTERS {
        let reports = (0..MEASURED_BUNDLES).map(|bundle| {
            let mut report = state_of(DeploymentState::Ready, 1);
            report.bundle = format!("b-{bundle}").parse().unwrap();
            report.run = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().ok();
            report
        });
        let reports = DeploymentReports {
            reports: reports.collect(),
            ..DeploymentReports::default()
        };
        hub.parts.fleet.report(&id(number), reports).await.unwrap();
        if number % 500 == 0 {
            hub.parts.fleet.pass().await.unwrap();
        }
    }
    let reported = start.elapsed().unwrap();
    hub.pass().await;
    let reports = resident_kib();
    println!(
        "{} MiB released, {} MiB reported, {} us a report",
        (released - empty) / 1024,
        (reports - empty) / 1024,
        reported.as_micros() / (MEASURED_CLUSTERS * MEASURED_BUNDLES) as u128
    );
}
