//! Bytes that the kernel may hold unsent.

use super::*;

/// Largest limit within `time`, looked at every 20 ms.
async fn most_unsent(path: &mut EmulatedPath, time: Duration) -> u32 {
    let (begin, step) = (Instant::now(), Duration::from_millis(20));
    let mut most = 0;
    for n in 1..=time.as_millis() / step.as_millis() {
        let end = begin + step * n as u32;
        path.run(end.saturating_duration_since(Instant::now()))
            .await;
        most = most.max(path.congestion.max_unsent());
    }
    most
}

#[tokio::test(start_paused = true)]
async fn kernel_holds_a_bdp_unsent_while_tcp_measures_a_shared_path() {
    let mut path = EmulatedPath::new(Duration::from_millis(20), 20e6);
    // Windows may limit the rate at startup.
    let most = most_unsent(&mut path, 5 * ONE_SECOND).await;
    assert_eq!(most, MAX_UNSENT_BYTES);

    // The queue of another flow makes the limit generous.
    let bdp = 400_000;
    path.others = 1_000_000;
    let most = most_unsent(&mut path, 5 * ONE_SECOND).await;
    assert!((bdp / 2..3 * bdp).contains(&most), "{most}");
    most_unsent(&mut path, 5 * ONE_SECOND).await;
    assert_eq!(path.congestion.max_unsent(), MAX_UNSENT_BYTES);
}

#[tokio::test(start_paused = true)]
async fn kernel_holds_two_messages_unsent_on_a_near_or_a_slow_path() {
    for (millis, rate) in [(1, 20e6), (20, 500e3)] {
        let mut path = EmulatedPath::new(Duration::from_millis(millis), rate);
        let most = most_unsent(&mut path, 10 * ONE_SECOND).await;
        assert_eq!(most, MAX_UNSENT_BYTES, "{millis} ms");
    }
}
