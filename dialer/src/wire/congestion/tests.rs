use std::{future::poll_fn, task::Waker};

use tokio::time::advance;

use super::*;

const MAX_FLIGHT: u64 = 4 << 20;

/// A sender with endless bulk over a path of `rtt` and `rate` bytes per second, with an unlimited
/// queue.
struct EmulatedPath {
    congestion: CongestionControl,
    sent: u64,
    acknowledged: u64,
    rtt: Duration,
    rate: f64,
    /// Bytes that another flow keeps in the queue.
    others: u64,
    /// Arrival of the last byte so far, and of the probes.
    free: Instant,
    answers: VecDeque<(Instant, u64)>,
}

impl EmulatedPath {
    fn new(rtt: Duration, rate: f64) -> Self {
        EmulatedPath {
            congestion: CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent),
            sent: 0,
            acknowledged: 0,
            rtt,
            rate,
            others: 0,
            free: Instant::now(),
            answers: VecDeque::new(),
        }
    }

    fn send(&mut self) {
        let message = 16_000;
        while self.congestion.bulk_room(self.sent - self.acknowledged) > 0 {
            self.sent += message;
            // The queue is first in, first out.
            let share = 1.0 + self.others as f64 / (self.sent - self.acknowledged) as f64;
            let took = Duration::from_secs_f64(message as f64 * share / self.rate);
            self.free = self.free.max(Instant::now()) + took;
            self.probe();
        }
        self.probe();
    }

    fn probe(&mut self) {
        let flight = self.sent - self.acknowledged;
        if self.congestion.due(self.sent, flight, Instant::now()) != Due::Nothing {
            self.congestion.sent(self.sent, flight);
            let others = Duration::from_secs_f64(self.others as f64 / self.rate);
            let at = self.free.max(Instant::now() + others) + self.rtt;
            self.answers.push_back((at, self.sent));
        }
    }

    /// Waits until everything is acknowledged and for `pause`, and exchanges a small message.
    async fn exchange_one_message(&mut self, pause: Duration) {
        while let Some((at, count)) = self.answers.pop_front() {
            advance(at.saturating_duration_since(Instant::now())).await;
            self.congestion.answered(count).unwrap();
        }
        advance(pause).await;
        self.sent += 1000;
        self.acknowledged = self.sent;
        self.congestion.sent(self.sent, 1000);
        advance(self.rtt).await;
        self.congestion.answered(self.sent).unwrap();
    }

    /// Runs for `time`; returns the delivered bytes and the longest round trip.
    async fn run(&mut self, time: Duration) -> (u64, Duration) {
        let (end, before) = (Instant::now() + time, self.acknowledged);
        let mut longest = Duration::ZERO;
        loop {
            self.send();
            if self.congestion.wait_for_pace(self.answers.front()).await {
                continue;
            }
            let (at, count) = self.answers.pop_front().expect("a probe is always out");
            if at > end {
                self.answers.push_front((at, count));
                return (self.acknowledged - before, longest);
            }
            advance(at.saturating_duration_since(Instant::now())).await;
            self.acknowledged = count;
            self.congestion.answered(count).unwrap();
            longest = longest.max(self.congestion.rtt().unwrap());
        }
    }
}

impl CongestionControl {
    /// Waits until bulk may go on, if that is before the `next` acknowledgement.
    async fn wait_for_pace(&mut self, next: Option<&(Instant, u64)>) -> bool {
        let Some(at) = self.pace.release_time() else {
            return false;
        };
        if next.is_some_and(|(next, _)| *next < at) {
            return false;
        }
        advance(at.saturating_duration_since(Instant::now())).await;
        let mut cx = Context::from_waker(Waker::noop());
        self.poll(&mut cx, false, Instant::now()).unwrap();
        true
    }
}

const ONE_SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn bulk_fills_a_slow_path_without_a_long_queue() {
    let rate = 25e6;
    let mut path = EmulatedPath::new(Duration::from_micros(500), rate);
    path.run(ONE_SECOND).await;
    let (delivered, longest) = path.run(10 * ONE_SECOND).await;
    assert!(delivered as f64 > 0.9 * 10.0 * rate, "{delivered}");
    assert!(longest < Duration::from_millis(5), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn bulk_fills_a_long_path() {
    let rate = 50e6;
    let mut path = EmulatedPath::new(Duration::from_millis(60), rate);
    path.run(5 * ONE_SECOND).await;
    let (delivered, _) = path.run(10 * ONE_SECOND).await;
    assert!(delivered as f64 > 0.8 * 10.0 * rate, "{delivered}");
}

#[tokio::test(start_paused = true)]
async fn path_that_becomes_longer_is_measured_again() {
    let rate = 25e6;
    let mut path = EmulatedPath::new(Duration::from_millis(1), rate);
    path.run(5 * ONE_SECOND).await;
    path.rtt = Duration::from_millis(30);
    path.run(30 * ONE_SECOND).await;
    let (delivered, _) = path.run(10 * ONE_SECOND).await;
    assert!(delivered as f64 > 0.7 * 10.0 * rate, "{delivered}");
}

#[tokio::test(start_paused = true)]
async fn unfilled_flight_does_not_raise_the_limit() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    for n in 1..1000 {
        congestion.sent(n * 1000, 1000);
        advance(Duration::from_micros(100)).await;
        congestion.answered(n * 1000).unwrap();
    }
    assert_eq!(congestion.bulk_room(0), INITIAL_LIMIT as usize);
}

#[tokio::test(start_paused = true)]
async fn small_messages_in_flight_delay_bulk_earlier() {
    let after = |busy: bool| async move {
        let mut path = EmulatedPath::new(Duration::from_micros(200), 500e6);
        path.congestion.interactive(busy);
        path.run(ONE_SECOND).await.1
    };
    assert!(after(true).await < after(false).await);
}

#[tokio::test(start_paused = true)]
async fn full_flight_always_has_a_probe() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    // No data after the last probe could cause another.
    congestion.sent(30_000, 30_000);
    congestion.answered(30_000).unwrap();
    congestion.limit = MIN_LIMIT;
    congestion.probed = 60_000;
    assert_eq!(congestion.due(60_000, 30_000, Instant::now()), Due::Probe);
}

#[tokio::test(start_paused = true)]
async fn acknowledgement_covers_earlier_probes_and_needs_a_probe() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    for count in [10, 20, 30] {
        congestion.sent(count, count);
    }
    assert_eq!(congestion.answered(15), Err(UnknownProbe));
    assert_eq!(congestion.answered(20), Ok(()));
    assert_eq!(congestion.answered(10), Err(UnknownProbe));
    assert_eq!(congestion.answered(30), Ok(()));
    assert_eq!(congestion.answered(30), Err(UnknownProbe));
}

#[tokio::test(start_paused = true)]
async fn probes_in_flight_are_limited() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    for n in 1..=100 {
        if congestion.due(n * INITIAL_LIMIT, n * INITIAL_LIMIT, Instant::now()) != Due::Nothing {
            congestion.sent(n * INITIAL_LIMIT, n * INITIAL_LIMIT);
        }
    }
    assert_eq!(congestion.out.len(), MAX_PROBES_IN_FLIGHT);
}

#[tokio::test(start_paused = true)]
async fn first_probe_follows_the_first_message() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    assert_eq!(congestion.due(0, 0, Instant::now()), Due::Nothing);
    assert_eq!(congestion.due(1, 1, Instant::now()), Due::Probe);
    congestion.sent(1, 1);
    assert_eq!(congestion.due(2, 2, Instant::now()), Due::Nothing);
}

#[tokio::test(start_paused = true)]
async fn link_of_a_resumed_session_is_probed_at_once() {
    let mut congestion = CongestionControl::new(7, MAX_FLIGHT, SocketRole::Agent);
    assert_eq!(congestion.due(7, 0, Instant::now()), Due::IdleProbe);
}

#[tokio::test(start_paused = true)]
async fn idle_link_is_probed_every_six_seconds_and_dead_after_the_timeout() {
    let start = Instant::now();
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    let mut probes = Vec::new();
    let silence = poll_fn(|cx| {
        loop {
            if congestion.due(0, 0, Instant::now()) == Due::IdleProbe {
                probes.push(Instant::now() - start);
                congestion.sent(0, 0);
                if probes.len() < 4 {
                    congestion.heard(Instant::now());
                    congestion.answered(0).unwrap();
                }
                continue;
            }
            return match congestion.poll(cx, true, Instant::now()) {
                Ok(()) => Poll::Pending,
                Err(silence) => Poll::Ready(silence),
            };
        }
    });
    assert_eq!(silence.await, SILENCE_TIMEOUT);
    assert!(
        (ACTIVE_PROBE_INTERVAL..2 * ACTIVE_PROBE_INTERVAL).contains(&probes[0]),
        "{:?}",
        probes[0]
    );
    for pair in probes.windows(2) {
        let apart = (pair[1] - pair[0]).as_secs_f64();
        assert!((5.4..=6.7).contains(&apart), "{apart}");
    }
    // Last sign of life: the third acknowledgement.
    let died = start.elapsed() - probes[2];
    let died = died.as_secs_f64() - SILENCE_TIMEOUT.as_secs_f64();
    assert!((0.0..0.1).contains(&died), "{died}");
}

/// The peer's own messages answer the question that a probe would ask.
#[tokio::test(start_paused = true)]
async fn peer_that_is_heard_is_not_probed() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    congestion.sent(1, 1);
    congestion.answered(1).unwrap();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(congestion.due(1, 0, Instant::now()), Due::Nothing);
        congestion.heard(Instant::now());
    }
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(congestion.due(1, 0, Instant::now()), Due::IdleProbe);
}

mod tcp;
mod unsent;
