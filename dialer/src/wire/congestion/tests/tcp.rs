//! Throughput that congestion control leaves to a TCP with slow start, losses and recovery: a
//! sender with it compared to an unlimited one.

use super::*;

const SEGMENT_BYTES: f64 = 1460.0;
const MESSAGE_BYTES: u64 = 16_000;

/// A path with a TCP that sends its window once per round trip, at most at the path's rate.
struct Tcp {
    rtt: Duration,
    rate: f64,
    /// Bytes between two losses.
    lossy: Option<u64>,
    /// A loss counts as a sign of congestion.
    gives_way: bool,
    window: f64,
    slow_start: bool,
    until_loss: u64,
    /// Departure of the last byte so far, end of the recovery, and due acknowledgements of probes.
    free: Instant,
    gap: Instant,
    answers: VecDeque<(Instant, u64)>,
}

impl Tcp {
    fn new(rtt: Duration, rate: f64, lossy: Option<u64>) -> Self {
        Tcp {
            rtt,
            rate,
            lossy,
            gives_way: true,
            window: 10.0 * SEGMENT_BYTES,
            slow_start: true,
            until_loss: lossy.unwrap_or_default(),
            free: Instant::now(),
            gap: Instant::now(),
            answers: VecDeque::new(),
        }
    }

    fn send(&mut self, bytes: u64) {
        let now = Instant::now();
        // A window that is not filled does not grow.
        let filled = self.free > now;
        let rate = self.rate.min(self.window / self.rtt.as_secs_f64());
        self.free = self.free.max(now) + Duration::from_secs_f64(bytes as f64 / rate);
        if filled && self.window / self.rtt.as_secs_f64() < 1.25 * self.rate {
            let of_window = if self.slow_start {
                1.0
            } else {
                SEGMENT_BYTES / self.window
            };
            self.window += bytes as f64 * of_window;
        }
        let Some(every) = self.lossy else { return };
        self.until_loss = self.until_loss.saturating_sub(bytes);
        if self.until_loss == 0 {
            self.until_loss = every;
            self.gap = self.free + self.rtt;
            if self.gives_way {
                self.window = (self.window * 0.7).max(2.0 * SEGMENT_BYTES);
                self.slow_start = false;
            }
        }
    }

    /// Bytes delivered in `time` to a sender with endless data, limited by `congestion` if there is one.
    async fn run(mut self, mut congestion: Option<&mut CongestionControl>, time: Duration) -> u64 {
        let end = Instant::now() + time;
        let (mut sent, mut acknowledged) = (0_u64, 0);
        loop {
            loop {
                let flight = sent - acknowledged;
                let room = match &congestion {
                    Some(congestion) => congestion.bulk_room(flight) > 0,
                    None => flight < MAX_FLIGHT,
                };
                if room {
                    self.send(MESSAGE_BYTES);
                    sent += MESSAGE_BYTES;
                }
                let flight = sent - acknowledged;
                let probes = match &mut congestion {
                    Some(congestion) => {
                        congestion.due(sent, flight, Instant::now()) != Due::Nothing
                    }
                    None => room,
                };
                if probes {
                    if let Some(congestion) = &mut congestion {
                        congestion.sent(sent, flight);
                    }
                    let at = self.free.max(self.gap).max(Instant::now()) + self.rtt;
                    self.answers.push_back((at, sent));
                }
                if !room {
                    break;
                }
            }
            if let Some(congestion) = &mut congestion
                && congestion.wait_for_pace(self.answers.front()).await
            {
                continue;
            }
            let (at, mut count) = self.answers.pop_front().expect("a probe is always out");
            // Acknowledgements of one instant are handled together.
            while let Some((_, later)) = self.answers.pop_front_if(|(other, _)| *other <= at) {
                count = later;
            }
            if at > end {
                return acknowledged;
            }
            advance(at.saturating_duration_since(Instant::now())).await;
            acknowledged = count;
            if let Some(congestion) = &mut congestion {
                congestion.answered(count).unwrap();
            }
        }
    }
}

/// Share of plain TCP's throughput.
async fn share(tcp: impl Fn() -> Tcp, time: Duration) -> f64 {
    let plain = tcp().run(None, time).await;
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    let paced = tcp().run(Some(&mut congestion), time).await;
    paced as f64 / plain as f64
}

#[tokio::test(start_paused = true)]
async fn tcp_in_slow_start_is_not_limited() {
    for millis in [20, 60, 150] {
        let tcp = || Tcp::new(Duration::from_millis(millis), 20e6, None);
        let share = share(tcp, 5 * ONE_SECOND).await;
        assert!(share > 0.9, "{millis} ms: {share}");
    }
}

const LOSSY: [(u64, u64); 4] = [
    (20, 146_000),
    (60, 1_460_000),
    (150, 146_000),
    (150, 14_600_000),
];

#[tokio::test(start_paused = true)]
async fn tcp_with_losses_is_not_limited() {
    for (millis, lossy) in LOSSY {
        let tcp = || Tcp::new(Duration::from_millis(millis), 20e6, Some(lossy));
        let share = share(tcp, 30 * ONE_SECOND).await;
        assert!(share > 0.85, "{millis} ms, every {lossy} bytes: {share}");
    }
}

#[tokio::test(start_paused = true)]
async fn tcp_that_ignores_losses_is_not_limited() {
    for (millis, lossy) in LOSSY {
        let tcp = || {
            let mut tcp = Tcp::new(Duration::from_millis(millis), 10e6, Some(lossy));
            tcp.gives_way = false;
            tcp
        };
        let share = share(tcp, 60 * ONE_SECOND).await;
        assert!(share > 0.8, "{millis} ms, every {lossy} bytes: {share}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_far_path_that_is_full_has_no_long_queue() {
    let mut path = EmulatedPath::new(Duration::from_millis(60), 20e6);
    path.run(5 * ONE_SECOND).await;
    let (delivered, longest) = path.run(10 * ONE_SECOND).await;
    assert!(delivered as f64 > 0.95 * 10.0 * 20e6, "{delivered}");
    assert!(longest < Duration::from_millis(75), "{longest:?}");
}

/// The path is known then: a flight of several times the BDP could overflow its queue.
#[tokio::test(start_paused = true)]
async fn bulk_after_a_pause_makes_no_long_queue() {
    let mut path = EmulatedPath::new(Duration::from_millis(60), 20e6);
    path.run(10 * ONE_SECOND).await;
    for pause in [Duration::from_millis(1), ONE_SECOND, 40 * ONE_SECOND] {
        path.exchange_one_message(pause).await;
        let (delivered, longest) = path.run(5 * ONE_SECOND).await;
        assert!(
            delivered as f64 > 0.9 * 5.0 * 20e6,
            "{pause:?}: {delivered}"
        );
        // The flight of a full path, sent over an empty one at one and a half times its rate.
        assert!(
            longest < Duration::from_millis(100),
            "{pause:?}: {longest:?}"
        );
    }
}

/// BBR sends next to nothing for 200 ms, every ten seconds.
#[tokio::test(start_paused = true)]
async fn pauses_of_tcp_make_no_long_queue() {
    let mut path = EmulatedPath::new(Duration::from_millis(60), 20e6);
    for pause in 0..60 {
        path.run(10 * ONE_SECOND + pause * Duration::from_millis(17))
            .await;
        path.free = path.free.max(Instant::now()) + Duration::from_millis(200);
        path.run(ONE_SECOND).await;
        let (_, longest) = path.run(ONE_SECOND).await;
        assert!(longest < Duration::from_millis(100), "{pause}: {longest:?}");
    }
}

/// A queue that stays however little is sent belongs to others.
#[tokio::test(start_paused = true)]
async fn bulk_does_not_give_way_to_the_queue_of_another_flow() {
    for (rtt, others) in [(4, 100_000), (20, 1_000_000), (60, 3_000_000)] {
        let mut path = EmulatedPath::new(Duration::from_millis(rtt), 20e6);
        path.run(5 * ONE_SECOND).await;
        path.others = others;
        path.run(ONE_SECOND).await;
        let (delivered, _) = path.run(5 * ONE_SECOND).await;
        assert!(delivered as f64 > 0.3 * 5.0 * 20e6, "{rtt} ms: {delivered}");
    }
}

/// Small messages wait behind it. After ten seconds the path is measured anew.
#[tokio::test(start_paused = true)]
async fn bulk_beside_the_queue_of_another_flow_has_a_bounded_flight() {
    let mut path = EmulatedPath::new(Duration::from_millis(20), 4e6);
    path.run(5 * ONE_SECOND).await;
    path.others = 400_000;
    path.run(5 * ONE_SECOND).await;
    let flight = path.sent - path.acknowledged;
    assert!(flight < 1_600_000, "{flight}");
}

#[tokio::test(start_paused = true)]
async fn near_path_that_becomes_far_is_detected_soon() {
    let mut path = EmulatedPath::new(Duration::from_millis(1), 20e6);
    path.run(5 * ONE_SECOND).await;
    path.rtt = Duration::from_millis(60);
    path.run(5 * ONE_SECOND).await;
    let (delivered, _) = path.run(5 * ONE_SECOND).await;
    assert!(delivered as f64 > 0.9 * 5.0 * 20e6, "{delivered}");
}

#[tokio::test(start_paused = true)]
async fn sparse_data_is_probed_four_times_a_second() {
    let mut congestion = CongestionControl::new(0, MAX_FLIGHT, SocketRole::Agent);
    let mut probes = 0;
    for n in 1..=100_u64 {
        if congestion.due(n * 100, 100, Instant::now()) != Due::Nothing {
            congestion.sent(n * 100, 100);
            congestion.answered(n * 100).unwrap();
            probes += 1;
        }
        advance(Duration::from_millis(100)).await;
    }
    assert!((30..=41).contains(&probes), "{probes}");
}
