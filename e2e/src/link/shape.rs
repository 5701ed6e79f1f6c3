//! Effect of a link on packets: the pure part of the emulator. Time is an argument and randomness comes from
//! a seed, so that the same packets at the same times are treated alike.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Properties of one direction of a link. The default has no delay, no loss and no limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkShape {
    /// One-way delay in microseconds.
    pub delay_us: u64,
    /// Maximum of an additional delay in microseconds, evenly distributed. Packets stay in order.
    pub jitter_us: u64,
    /// Share of lost packets, 0 to 1.
    pub loss: f64,
    /// Bytes per second; 0 is no limit.
    pub rate: u64,
    /// Bytes that may wait at that rate; packets beyond it are lost.
    pub queue: u64,
}

impl Default for LinkShape {
    fn default() -> Self {
        Self {
            delay_us: 0,
            jitter_us: 0,
            loss: 0.0,
            rate: 0,
            queue: 256 * 1024,
        }
    }
}

impl LinkShape {
    /// A link with this round-trip time, half of it in each direction.
    #[must_use]
    pub fn round_trip(time: Duration) -> Self {
        Self {
            delay_us: u64::try_from(time.as_micros() / 2).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    /// Sets the maximum additional delay.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter_us = u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// Sets the share of lost packets, 0 to 1.
    #[must_use]
    pub fn loss(mut self, share: f64) -> Self {
        self.loss = share;
        self
    }

    /// Sets the rate limit, and the bytes that may wait for it.
    #[must_use]
    pub fn rate(mut self, bytes_per_second: u64, queue: u64) -> Self {
        self.rate = bytes_per_second;
        self.queue = queue;
        self
    }

    /// Drops every packet without an error.
    #[must_use]
    pub fn silent(self) -> Self {
        self.loss(1.0)
    }
}

/// Most bytes in flight, half a second at 1 Gbit/s.
const MAX_IN_FLIGHT_BYTES: u64 = 64 * 1024 * 1024;

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    shape: LinkShape,
    random: Random,
    /// Time at which the queue will be empty.
    free: Instant,
    /// Time at which the previous packet leaves.
    last: Instant,
    held: u64,
}

impl Pipe {
    /// Makes an empty pipe with the default shape.
    #[must_use]
    pub fn new(seed: u64, now: Instant) -> Self {
        Self {
            shape: LinkShape::default(),
            random: Random::new(seed),
            free: now,
            last: now,
            held: 0,
        }
    }

    /// Changes the link for later packets. Packets in flight stay as they are.
    pub fn set(&mut self, shape: LinkShape) {
        self.shape = shape;
    }

    /// Time at which this packet leaves the link; `None` if it is lost.
    pub fn arrive(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let lost = self.random.share() < self.shape.loss;
        let late = self.random.share();
        if lost || self.held + bytes > MAX_IN_FLIGHT_BYTES {
            return None;
        }
        self.free = self.free.max(now);
        if self.shape.rate > 0 {
            let waits = micros(self.free - now) as f64 * self.shape.rate as f64 / 1e6;
            if waits as u64 + bytes > self.shape.queue.max(bytes) {
                return None;
            }
            self.free += Duration::from_secs_f64(bytes as f64 / self.shape.rate as f64);
        }
        let jitter = (self.shape.jitter_us as f64 * late) as u64;
        let due = self.free + Duration::from_micros(self.shape.delay_us + jitter);
        self.last = self.last.max(due);
        self.held += bytes;
        Some(self.last)
    }

    /// Records that a packet has left.
    pub fn left(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// SplitMix64: good enough for packet loss and the choice of faults, and the same everywhere.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to 1, excluding 1.
    pub fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random item; `None` of an empty slice.
    pub fn choose<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get((self.share() * of.len() as f64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_MILLISECOND: Duration = Duration::from_millis(1);

    fn pipe(shape: LinkShape) -> (Pipe, Instant) {
        let now = Instant::now();
        let mut pipe = Pipe::new(7, now);
        pipe.set(shape);
        (pipe, now)
    }

    #[test]
    fn a_cable_passes_everything_at_once() {
        let (mut pipe, now) = pipe(LinkShape::default());
        assert_eq!(pipe.arrive(now, 1500), Some(now));
    }

    #[test]
    fn half_of_a_round_trip_is_spent_each_way() {
        let (mut pipe, now) = pipe(LinkShape::round_trip(150 * ONE_MILLISECOND));
        assert_eq!(pipe.arrive(now, 1500), Some(now + 75 * ONE_MILLISECOND));
    }

    #[test]
    fn packets_leave_at_the_rate_of_the_link() {
        let (mut pipe, now) = pipe(LinkShape::default().rate(1_000_000, 1_000_000));
        assert_eq!(pipe.arrive(now, 1000), Some(now + ONE_MILLISECOND));
        assert_eq!(pipe.arrive(now, 1000), Some(now + 2 * ONE_MILLISECOND));
        assert_eq!(
            pipe.arrive(now + 10 * ONE_MILLISECOND, 1000),
            Some(now + 11 * ONE_MILLISECOND)
        );
    }

    #[test]
    fn full_queue_drops_packets_until_it_drains() {
        let (mut pipe, now) = pipe(LinkShape::default().rate(1_000_000, 2_500));
        assert!(pipe.arrive(now, 1000).is_some());
        assert!(pipe.arrive(now, 1000).is_some());
        assert_eq!(pipe.arrive(now, 1000), None);
        assert!(pipe.arrive(now + ONE_MILLISECOND, 1000).is_some());
    }

    #[test]
    fn a_packet_larger_than_the_queue_passes_an_empty_one() {
        let (mut pipe, now) = pipe(LinkShape::default().rate(1_000_000, 10));
        assert!(pipe.arrive(now, 1000).is_some());
        assert_eq!(pipe.arrive(now, 1000), None);
    }

    #[test]
    fn jitter_never_puts_a_packet_before_an_earlier_one() {
        let (mut pipe, now) =
            pipe(LinkShape::round_trip(20 * ONE_MILLISECOND).jitter(30 * ONE_MILLISECOND));
        let due: Vec<_> = (0..1000).filter_map(|_| pipe.arrive(now, 100)).collect();
        assert!(due.is_sorted());
        assert!(due.iter().all(
            |due| (*due - now) >= 10 * ONE_MILLISECOND && (*due - now) <= 40 * ONE_MILLISECOND
        ));
    }

    #[test]
    fn the_same_seed_loses_the_same_packets_and_about_as_many_as_it_should() {
        let lost = || {
            let (mut pipe, now) = pipe(LinkShape::default().loss(0.01));
            let lost = (0..100_000).filter(|_| {
                let gone = pipe.arrive(now, 100).is_none();
                pipe.left(100);
                gone
            });
            lost.collect::<Vec<_>>()
        };
        assert_eq!(lost(), lost());
        assert!((800..1200).contains(&lost().len()), "{}", lost().len());
    }

    #[test]
    fn a_silent_link_passes_nothing_and_holds_nothing() {
        let (mut pipe, now) = pipe(LinkShape::default().silent());
        assert!((0..1000).all(|_| pipe.arrive(now, 1500).is_none()));
        assert_eq!(pipe.held, 0);
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let (mut pipe, now) = pipe(LinkShape::round_trip(Duration::from_secs(60)));
        let taken = (0..100_000).filter(|_| pipe.arrive(now, 1500).is_some());
        assert_eq!(taken.count() as u64, MAX_IN_FLIGHT_BYTES / 1500);
    }
}
