//! Tests of `choice`.

use super::*;

const GOOD: Candidate = Candidate {
    down: false,
    unknown: false,
    full: false,
    probe: ProbeOutcome::Good,
    running: 0,
    rtt: Some(Duration::from_millis(1)),
    elsewhere: false,
    chosen: 9,
};

fn better(one: Candidate, other: Candidate) -> bool {
    one.rank() < other.rank()
}

#[test]
fn working_session_beats_a_faulty_one() {
    let worst = Candidate {
        running: 400,
        rtt: Some(Duration::from_secs(2)),
        ..GOOD
    };
    for fault in [
        Candidate { down: true, ..GOOD },
        Candidate {
            unknown: true,
            ..GOOD
        },
        Candidate { full: true, ..GOOD },
        Candidate {
            probe: ProbeOutcome::Bad,
            ..GOOD
        },
        Candidate {
            probe: ProbeOutcome::Never,
            ..GOOD
        },
        Candidate {
            probe: ProbeOutcome::Silent,
            ..GOOD
        },
    ] {
        assert!(better(worst, fault), "{fault:?}");
    }
}

#[test]
fn equal_sessions_share_the_load() {
    let rtt = Some(Duration::from_micros(300));
    let busy = Candidate {
        running: 3,
        chosen: 0,
        rtt,
        ..GOOD
    };
    assert!(better(GOOD, busy), "the one with less to do");
    let earlier = Candidate {
        chosen: 8,
        rtt,
        ..GOOD
    };
    assert!(better(earlier, GOOD), "the next one in turn");
}

#[test]
fn far_session_is_chosen_only_under_load() {
    let far = Candidate {
        rtt: Some(Duration::from_millis(250)),
        chosen: 0,
        ..GOOD
    };
    let near = |running| Candidate { running, ..GOOD };
    assert!(better(near(0), far) && better(near(14), far));
    assert!(better(far, near(15)) && better(far, near(100)));
}

#[test]
fn rank_does_not_overflow() {
    let absurd = Candidate {
        running: usize::MAX,
        rtt: Some(Duration::MAX),
        ..GOOD
    };
    assert!(better(GOOD, absurd));
}

#[test]
fn session_on_the_own_core_has_up_to_twice_the_requests() {
    let own = |running| Candidate { running, ..GOOD };
    let other = |running| Candidate {
        running,
        elsewhere: true,
        chosen: 0,
        ..GOOD
    };
    assert!(better(own(0), other(0)));
    assert!(better(own(9), other(4)));
    assert!(better(other(4), own(10)));
}
