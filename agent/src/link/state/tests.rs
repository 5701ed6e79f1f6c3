use super::*;

type TestState = LinkPhase<&'static str, &'static str>;
type Happening = PhaseEvent<&'static str, &'static str>;

fn reconnecting(moves: bool) -> TestState {
    LinkPhase::Reconnecting {
        session: "s",
        moves,
    }
}

fn assert_next(
    role: SupervisorRole,
    rows: Vec<(TestState, Happening, TestState, Option<Released<&str>>)>,
) {
    for (state, event, next, released) in rows {
        let row = format!("{role:?}: {state:?} on {event:?}");
        assert_eq!(state.next(role, event), (next, released), "{row}");
    }
}

#[test]
fn primary_link_follows_its_table() {
    use LinkPhase::*;
    use PhaseEvent::*;
    let soon = || Waiting(Retry::Soon);
    assert_next(
        SupervisorRole::Primary,
        vec![
            (soon(), DelayElapsed, Connecting, None),
            (Connecting, Dialed("n"), Greeting("n"), None),
            (
                Connecting,
                Failed(Retry::Slowly),
                Waiting(Retry::Slowly),
                None,
            ),
            (Greeting("n"), Dialed("m"), Greeting("m"), None),
            (Greeting("n"), HelloAccepted("s"), Connected("s"), None),
            (Greeting("n"), Failed(Retry::Soon), soon(), None),
            (Connected("s"), LinkLost, reconnecting(false), None),
            (Connected("s"), HubDraining, Moving("s"), None),
            (Moving("s"), LinkLost, reconnecting(true), None),
            (reconnecting(false), HubDraining, reconnecting(true), None),
            (reconnecting(false), Resumed, Connected("s"), None),
            (reconnecting(true), Resumed, Moving("s"), None),
            (reconnecting(false), Superseded("n"), Greeting("n"), None),
            (reconnecting(false), SessionLost, soon(), None),
            (
                reconnecting(false),
                Moved("n"),
                Greeting("n"),
                Some(Released::Park("s")),
            ),
            (
                Moving("s"),
                Moved("n"),
                Greeting("n"),
                Some(Released::Park("s")),
            ),
            (
                Connected("s"),
                IdentityReplaced,
                soon(),
                Some(Released::Close("s")),
            ),
            (Connected("s"), IdentityRejected, Replacing("s"), None),
            (reconnecting(true), IdentityRejected, Replacing("s"), None),
            (Replacing("s"), Failed(Retry::Soon), soon(), None),
            (
                Connected("s"),
                Failed(Retry::Slowly),
                Waiting(Retry::Slowly),
                None,
            ),
        ],
    );
}

#[test]
fn parked_session_keeps_its_hub_or_stops() {
    use LinkPhase::*;
    use PhaseEvent::*;
    let closed = || Some(Released::Close("s"));
    assert_next(
        SupervisorRole::Parked,
        vec![
            (Connected("s"), LinkLost, reconnecting(false), None),
            (reconnecting(false), Resumed, Connected("s"), None),
            (reconnecting(false), SessionLost, Stopped, closed()),
            (reconnecting(false), IdentityRejected, Stopped, closed()),
            (reconnecting(false), Moved("n"), Stopped, closed()),
            (Connected("s"), Unused, Stopped, closed()),
            (Connected("s"), Failed(Retry::Soon), Stopped, closed()),
        ],
    );
}

#[test]
fn draining_process_waits_only_for_serving_sessions() {
    for role in [SupervisorRole::Primary, SupervisorRole::Parked] {
        let draining = |state: TestState| state.next(role, PhaseEvent::ProcessDraining).0;
        for state in [
            LinkPhase::Connected("s"),
            LinkPhase::Moving("s"),
            reconnecting(false),
        ] {
            assert_eq!(draining(state), LinkPhase::Draining("s"));
        }
        for state in [
            LinkPhase::Waiting(Retry::Soon),
            LinkPhase::Connecting,
            LinkPhase::Greeting("n"),
            LinkPhase::Replacing("s"),
        ] {
            assert_eq!(draining(state), LinkPhase::Stopped);
        }
        for state in [LinkPhase::Waiting(Retry::Soon), LinkPhase::Connecting] {
            let ended: (TestState, _) = state.next(role, PhaseEvent::Superfluous);
            assert_eq!(ended, (LinkPhase::Stopped, None));
        }
        let drained: (TestState, _) = LinkPhase::Draining("s").next(role, PhaseEvent::Drained);
        assert_eq!(drained, (LinkPhase::Stopped, None));
    }
}
