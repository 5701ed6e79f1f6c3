//! Tests of `group`.

use super::*;

fn status(state: ClusterState, minute: i64, code: Option<Code>) -> ClusterStatus {
    ClusterStatus {
        state,
        since: OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute),
        last_error: code.map(|code| LastError {
            code,
            cause: String::new(),
        }),
        last_seen: None,
        last_good_probe: None,
        hub: None,
    }
}

#[test]
fn good_probe_needs_a_ready_api_server() {
    let at = |minute| OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute);
    let error = || LastError {
        code: Code::ApiUnreachable,
        cause: String::new(),
    };
    let mut contact = LastContact::default();
    contact.after(&ProbeResult::Silent(error()), at(1));
    assert_eq!(contact, LastContact::default());
    contact.after(&ProbeResult::Good, at(2));
    contact.after(&ProbeResult::Bad(error()), at(3));
    contact.after(&ProbeResult::Down(error()), at(4));
    let status = contact.apply_to(status(ClusterState::Lost, 4, None));
    assert_eq!(
        (status.last_seen, status.last_good_probe),
        (Some(at(3)), Some(at(2)))
    );
}

#[test]
fn final_status_keeps_the_time_of_an_earlier_loss() {
    let mut group = ClusterSessions::default();
    let ended = || status(ClusterState::Lost, 5, Some(Code::SessionBroke));
    assert_eq!(group.final_status(ended()), ended());
    for (last_report, minute) in [(ClusterState::Lost, 4), (ClusterState::Connected, 5)] {
        group.last_report = Some(LastStatus {
            status: status(last_report, 4, Some(Code::Timeout)),
            at: Instant::now(),
        });
        let expected = status(ClusterState::Lost, minute, Some(Code::SessionBroke));
        assert_eq!(group.final_status(ended()), expected);
    }
}

#[test]
fn cluster_has_the_status_of_its_best_session() {
    let lost = status(ClusterState::Lost, 0, Some(Code::SessionBroke));
    let unready = status(ClusterState::ApiUnreachable, 1, Some(Code::ApiUnreachable));
    let (first, second) = (
        status(ClusterState::Connected, 2, None),
        status(ClusterState::Connected, 3, None),
    );
    for (all, expected) in [
        (vec![&lost, &unready, &second, &first], Some(&first)),
        (vec![&lost, &unready], Some(&unready)),
        (vec![&lost], Some(&lost)),
        (vec![], None),
    ] {
        assert_eq!(best_status(all.into_iter()), expected);
    }
}
