//! Tests of `silence`.

use super::*;

fn error(code: Code) -> LastError {
    LastError {
        code,
        cause: "x".to_owned(),
    }
}

/// The silent side after each probe; `None`: unchanged. Probes are pairs of a second and a result.
fn hear(probes: &[(u64, ProbeResult)]) -> Vec<Option<Option<SilentParty>>> {
    hear_until(0, probes)
}

/// As [`hear`], over a link that breaks at a second.
fn hear_until(down: u64, probes: &[(u64, ProbeResult)]) -> Vec<Option<Option<SilentParty>>> {
    let start = Instant::now();
    let mut listener = SilenceDetector::new(start);
    let after = probes.iter().map(|(second, probed)| {
        let down = start + Duration::from_secs(down);
        let silence = listener.after(probed, Some(down), start + Duration::from_secs(*second));
        silence.ok().map(|it| it.map(|it| it.party))
    });
    after.collect()
}

#[test]
fn agent_is_silent_fifteen_seconds_after_its_last_answer() {
    let silent = || ProbeResult::Silent(error(Code::Timeout));
    let heard = hear(&[
        (0, ProbeResult::Good),
        (5, ProbeResult::Bad(error(Code::ApiUnreachable))),
        (15, silent()),
        (20, silent()),
        (21, ProbeResult::Good),
        (30, silent()),
    ]);
    let expected = [
        Some(None),
        Some(None),
        None,
        Some(Some(SilentParty::Agent)),
        Some(None),
        None,
    ];
    assert_eq!(heard, expected);
}

#[test]
fn broken_link_is_no_silence_for_twenty_seconds() {
    let down = || ProbeResult::Down(error(Code::SessionBroke));
    let heard = hear(&[(0, down()), (19, down()), (20, down())]);
    assert_eq!(heard, [None, None, Some(Some(SilentParty::Agent))]);
}

/// A frozen agent: its probes are unanswered, then its link is given up.
#[test]
fn link_that_is_given_up_for_silence_leaves_the_agent_silent_after_fifteen_seconds() {
    let silent = || ProbeResult::Silent(error(Code::Timeout));
    let down = || ProbeResult::Down(error(Code::SessionBroke));
    let probes = [
        (0, ProbeResult::Good),
        (5, silent()),
        (11, down()),
        (14, down()),
        (15, down()),
    ];
    let agent = Some(Some(SilentParty::Agent));
    assert_eq!(
        hear_until(11, &probes),
        [Some(None), None, None, None, agent]
    );
}

#[test]
fn link_that_breaks_after_fifteen_silent_seconds_is_silent_at_once() {
    let down = || ProbeResult::Down(error(Code::SessionBroke));
    let silent = || ProbeResult::Silent(error(Code::Timeout));
    let broken = |last| {
        hear_until(
            19,
            &[(last, ProbeResult::Good), (18, silent()), (19, down())],
        )
    };
    assert_eq!(
        broken(4),
        [Some(None), None, Some(Some(SilentParty::Agent))]
    );
    assert_eq!(broken(5), [Some(None), None, None], "14 s before the break");
}

#[test]
fn api_server_is_silent_when_its_agent_reports_timeouts() {
    let late = || ProbeResult::Bad(error(Code::ApiTimeout));
    let heard = hear(&[
        (1, late()),
        (5, ProbeResult::Good),
        (19, late()),
        (20, late()),
        (25, ProbeResult::Bad(error(Code::ApiUnreachable))),
        (30, late()),
    ]);
    let api_server = Some(Some(SilentParty::ApiServer));
    assert_eq!(
        heard,
        [api_server, Some(None), None, api_server, Some(None), None]
    );
}

#[test]
fn possibly_executed_request_is_not_reported_as_lost() {
    let silence = |party| Silence {
        party,
        since: Instant::now(),
        error: error(Code::Timeout),
    };
    let code = |party, read_only| {
        silence(party)
            .failure_for(read_only)
            .map(|failure| failure.code)
    };
    assert_eq!(code(SilentParty::Agent, true), Some(Code::Lost));
    assert_eq!(code(SilentParty::Agent, false), Some(Code::Timeout));
    assert_eq!(code(SilentParty::ApiServer, true), Some(Code::ApiTimeout));
    assert_eq!(code(SilentParty::ApiServer, false), None);
    for (method, upgrades, only_reads) in [
        (Method::GET, false, true),
        (Method::HEAD, false, true),
        (Method::GET, true, false),
        (Method::POST, false, false),
        (Method::DELETE, false, false),
    ] {
        assert_eq!(
            is_read_only(&method, upgrades),
            only_reads,
            "{method} {upgrades}"
        );
    }
}
