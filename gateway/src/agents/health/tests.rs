//! Tests of `health`.

use super::*;

fn error(code: Code) -> LastError {
    LastError {
        code,
        cause: String::new(),
    }
}

fn after(
    health: &mut HealthTracker,
    probed: ProbeResult,
    start: Instant,
    seconds: u64,
) -> Option<ClusterState> {
    health
        .after(probed, start + Duration::from_secs(seconds))
        .map(|status| status.state)
}

#[test]
fn connected_is_a_good_probe_within_fifteen_seconds() {
    let start = Instant::now();
    let mut health = HealthTracker::new(start);
    let bad = || ProbeResult::Bad(error(Code::ApiUnreachable));
    assert_eq!(
        after(&mut health, ProbeResult::Good, start, 0),
        Some(ClusterState::Connected)
    );
    assert_eq!(
        after(&mut health, ProbeResult::Good, start, 5),
        None,
        "nothing new"
    );
    assert_eq!(after(&mut health, bad(), start, 10), None);
    assert_eq!(after(&mut health, bad(), start, 19), None);
    assert_eq!(
        after(&mut health, bad(), start, 20),
        Some(ClusterState::ApiUnreachable)
    );
    assert_eq!(after(&mut health, bad(), start, 25), None);
    assert_eq!(
        after(&mut health, ProbeResult::Good, start, 30),
        Some(ClusterState::Connected)
    );
    let silent = ProbeResult::Silent(error(Code::Timeout));
    assert_eq!(after(&mut health, silent.clone(), start, 40), None);
    assert_eq!(
        after(&mut health, silent, start, 45),
        Some(ClusterState::Lost)
    );
}

#[test]
fn lost_link_is_reported_at_once_and_the_next_probe_recovers() {
    let start = Instant::now();
    let mut health = HealthTracker::new(start);
    let down = || ProbeResult::Down(error(Code::SessionBroke));
    after(&mut health, ProbeResult::Good, start, 0);
    assert_eq!(
        after(&mut health, down(), start, 1),
        Some(ClusterState::Lost)
    );
    assert_eq!(
        after(&mut health, ProbeResult::Good, start, 2),
        Some(ClusterState::Connected)
    );
}

#[test]
fn session_without_a_good_probe_reports_at_once() {
    let start = Instant::now();
    let mut health = HealthTracker::new(start);
    let bad = ProbeResult::Bad(error(Code::ApiUnreachable));
    assert_eq!(
        after(&mut health, bad, start, 1),
        Some(ClusterState::ApiUnreachable)
    );
    let other = ProbeResult::Bad(error(Code::ApiTimeout));
    assert_eq!(
        after(&mut health, other, start, 6),
        Some(ClusterState::ApiUnreachable),
        "another cause"
    );
}
