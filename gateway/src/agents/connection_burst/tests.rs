//! Tests of `connection_burst`.

use super::*;

/// Number of sessions at these times that are part of a burst.
fn burst_size(times: impl Iterator<Item = u64>) -> usize {
    let begin = Instant::now();
    let mut burst = ConnectionBurst::default();
    let count = |millis| burst.count(begin + Duration::from_millis(millis));
    times.map(count).filter(|burst_size| *burst_size).count()
}

#[test]
fn many_sessions_at_once_are_a_burst() {
    assert_eq!(burst_size((0..1000).map(|_| 0)), 900);
    assert_eq!(burst_size(0..3000), 2900);
}

#[test]
fn single_sessions_are_no_burst() {
    assert_eq!(burst_size((0..1000).map(|n| n * 10)), 0);
    assert_eq!(burst_size(0..50), 0);
}

#[test]
fn session_after_a_burst_is_no_part_of_it() {
    let crowd_and_later = (0..500).chain([1200, 2500, 10_000]);
    assert_eq!(burst_size(crowd_and_later), 400 + 1);
}
