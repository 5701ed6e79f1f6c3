mod hostile;
mod rig;
mod silence;

use std::time::Duration;

use proptest::prelude::*;
use tokio::{io::duplex, runtime, time::Instant};

use self::rig::{Fragile, WireEnd, begin, begin_with, limits, resume, session};
use super::{size::MAX_MESSAGE_BYTES, *};

fn lines(from: usize, count: usize) -> Vec<u8> {
    (from..from + count)
        .flat_map(|n| format!("line {n}\n").into_bytes())
        .collect()
}

/// Links of the given lengths in sequence, then one that holds; no byte may be lost, doubled or
/// reordered.
async fn survive(cuts: &[(usize, bool)], size: usize, piece: usize) {
    let known = Resumable::default();
    let mut cuts = cuts.iter().copied();
    let (first, _) = cuts.next().unwrap_or((usize::MAX, false));
    let (agent, hub) = session(&known, &limits(), first, piece).await;
    let (up, down) = (lines(0, size), lines(7_000_000, size));
    agent.put(&up);
    hub.put(&down);
    let all_there = async {
        assert!(agent.got(down.len()).await == down, "towards the agent");
        assert!(hub.got(up.len()).await == up, "towards the hub");
    };
    let links = async {
        loop {
            agent.down().await;
            let (a, h) = duplex(8 * 1024);
            let (left, reset) = cuts.next().unwrap_or((usize::MAX, false));
            let _ = resume(Fragile::new(a, left, reset), h, &agent.handle(), &known).await;
        }
    };
    tokio::select! {
        () = all_there => {}
        () = links => {}
    }
}

#[tokio::test]
async fn plaintext_arrives_whole_and_in_order() {
    for piece in [1000, MAX_PLAIN_BYTES] {
        survive(&[], 100_000, piece).await;
    }
}

#[tokio::test]
async fn no_data_is_lost_wherever_a_link_breaks() {
    // Every position within a resumption and the first messages after it.
    let cuts = (0..700).chain((700..40_000).step_by(397));
    let cuts: Vec<_> = cuts.map(|left| (left, left % 2 == 0)).collect();
    survive(&cuts, 250_000, 3000).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_lost_doubled_or_reordered_over_many_links(
        cuts in prop::collection::vec((0_usize..200_000, any::<bool>()), 0..12),
        piece in 1000_usize..=MAX_PLAIN_BYTES
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(survive(&cuts, 30_000, piece));
    }
}

#[tokio::test]
async fn retransmit_buffer_never_exceeds_its_limit() {
    let small = Limits {
        unacknowledged: 100_000,
        ..limits()
    };
    let known = Resumable::default();
    let (agent, hub) = session(&known, &small, usize::MAX, MAX_PLAIN_BYTES).await;
    let up = lines(0, 200_000);
    agent.put(&up);
    assert!(hub.got(up.len()).await == up);
    let (most, limit) = *agent.kept.borrow();
    assert!(most > limit / 4 && most <= limit, "{most} of {limit}");
}

#[tokio::test]
async fn peer_without_acknowledgements_gets_data_up_to_the_limit() {
    let known = Resumable::default();
    let limits = limits();
    let (a, h) = duplex(1 << 26);
    let (agent, hub) = begin(a, h, (&limits, &limits), &known).await;
    // The hub's wire exists, but nothing drives it.
    let (agent, _hub) = (
        WireEnd::drive(agent.unwrap(), MAX_PLAIN_BYTES),
        hub.unwrap(),
    );
    agent.put(&vec![1; 16 << 20]);
    let mut kept = agent.kept.clone();
    let full =
        |&(most, limit): &(usize, usize)| most > 0 && most + 2 * MAX_MESSAGE_BYTES + 20_000 > limit;
    drop(kept.wait_for(full).await.unwrap());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let (most, limit) = *agent.kept.borrow();
    assert!(most <= limit, "{most} of {limit}");
}

#[tokio::test(start_paused = true)]
async fn silent_peer_loses_its_link_and_then_its_session() {
    let known = Resumable::default();
    let limits = limits();
    let (a, h) = duplex(64 * 1024);
    let (agent, hub) = begin(a, h, (&limits, &limits), &known).await;
    let (agent, _silent) = (WireEnd::drive(agent.unwrap(), 1000), hub.unwrap());
    let start = Instant::now();
    agent.down().await;
    let silence = start.elapsed().as_secs_f64();
    assert!((10.4..11.0).contains(&silence), "{silence}");
    assert_eq!(
        agent.end().await,
        LinkEnd::Silent(crate::limits::SILENCE_TIMEOUT)
    );
    let window = start.elapsed().as_secs_f64() - silence;
    assert!((60.0..60.1).contains(&window), "{window}");
}

#[tokio::test(start_paused = true)]
async fn idle_session_lives_and_holds_no_data() {
    let known = Resumable::default();
    let (agent, hub) = session(&known, &limits(), usize::MAX, 1000).await;
    agent.put(b"only this");
    hub.got(9).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(agent.is_up() && hub.is_up());
    hub.put(b"still here");
    assert_eq!(agent.got(10).await, b"still here");
}

#[tokio::test(start_paused = true)]
async fn session_resumes_after_a_long_pause() {
    let known = Resumable::default();
    let (agent, hub) = session(&known, &limits(), 0, 1000).await;
    agent.down().await;
    hub.down().await;
    hub.put(b"said meanwhile");
    tokio::time::sleep(Duration::from_secs(59)).await;
    let (a, h) = duplex(8 * 1024);
    let (at_agent, at_hub) = resume(a, h, &agent.handle(), &known).await;
    assert_eq!((at_agent, at_hub), (Ok(()), Ok(())));
    assert_eq!(agent.got(14).await, b"said meanwhile");
    // The window starts again with each loss.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(agent.is_up() && hub.is_up());
}

/// The agent notices first: its old socket is gone silently, as behind a NAT that forgot it.
#[tokio::test]
async fn agent_resumes_while_the_hub_still_has_the_old_link() {
    let known = Resumable::default();
    let limits = limits();
    let (a, h) = duplex(64 * 1024);
    let (black_hole, kept_open) = duplex(64 * 1024);
    let (near, far) = (Fragile::new(a, usize::MAX, true), h);
    let near = rig::Handle::new(near);
    let (agent, hub) = begin(near.clone(), far, (&limits, &limits), &known).await;
    let agent = WireEnd::drive(agent.unwrap(), 1000);
    let mut hub = hub.unwrap();
    // From here on the hub's socket stays silent and never ends.
    let lost = WireLink::new(
        Socket::new(black_hole, &[], SocketRole::Hub),
        &hub.retransmit,
        1 << 20,
        SocketRole::Hub,
    );
    hub.state = WireState::Up(Box::new(lost));
    let hub = WireEnd::drive(hub, 1000);
    hub.put(b"into the void");
    near.break_after(0);
    agent.down().await;
    assert!(hub.is_up());
    let (a, h) = duplex(8 * 1024);
    let (at_agent, at_hub) = resume(a, h, &agent.handle(), &known).await;
    assert_eq!((at_agent, at_hub), (Ok(()), Ok(())));
    assert_eq!(agent.got(13).await, b"into the void");
    drop(kept_open);
}

#[tokio::test]
async fn close_of_a_link_ends_no_session() {
    let known = Resumable::default();
    let limits = limits();
    let (a, h) = duplex(64 * 1024);
    let (agent, hub) = begin(a, h, (&limits, &limits), &known).await;
    let agent = WireEnd::drive(agent.unwrap(), 1000);
    let mut hub = hub.unwrap();
    hub.seal(Instant::now(), &mut |out| {
        out.extend_from_slice(b"last words")
    });
    std::future::poll_fn(|cx| hub.poll_close(cx, CloseReason::Deleted)).await;
    assert_eq!(agent.got(10).await, b"last words");
    agent.down().await;
    assert_eq!(*agent.ended.borrow(), None);
}

#[tokio::test]
async fn the_highest_common_version_is_chosen() {
    for (agent, hub, chosen) in [
        ((1, 2), (1, 2), Some(2)),
        ((1, 1), (1, 2), Some(1)),
        ((1, 2), (1, 1), Some(1)),
        ((1, 3), (2, 5), Some(3)),
        ((2, 5), (1, 3), Some(3)),
        ((1, 9), (4, 4), Some(4)),
        ((1, 1), (2, 3), None),
        ((3, 4), (1, 2), None),
    ] {
        let (a, h) = duplex(64 * 1024);
        let known = Resumable::default();
        let limits = limits();
        let (a, h) = begin_with(a, h, (&limits, &limits), (agent, hub), Some(&known)).await;
        match (chosen, a, h) {
            (Some(chosen), Ok(a), Ok(h)) => {
                assert_eq!((a.agreed.version, h.agreed.version), (chosen, chosen));
            }
            (None, Err(a), Err(h)) => {
                assert!(matches!(a, LinkEnd::Versions { .. }), "{a}");
                assert!(matches!(h, LinkEnd::Versions { .. }), "{h}");
            }
            _ => panic!("{agent:?} {hub:?}"),
        }
    }
}

#[tokio::test]
async fn session_of_a_hub_that_keeps_none_ends_with_its_link() {
    let (a, h) = duplex(64 * 1024);
    let fragile = rig::Handle::new(Fragile::new(a, usize::MAX, false));
    let limits = limits();
    let both = (&limits, &limits);
    let versions = (VERSIONS, VERSIONS);
    let (a, h) = begin_with(fragile.clone(), h, both, versions, None).await;
    let (agent, hub) = (
        WireEnd::drive(a.unwrap(), 1000),
        WireEnd::drive(h.unwrap(), 1000),
    );
    let up = lines(0, 50_000);
    agent.put(&up);
    assert!(hub.got(up.len()).await == up);
    assert_eq!(agent.kept.borrow().0, 0);
    fragile.break_after(0);
    assert_eq!(agent.end().await, LinkEnd::Eof);
    assert_eq!(hub.end().await, LinkEnd::Eof);
}
