//! Congestion control by ack probes: when to send one, and the conclusions from its
//! acknowledgement.
//!
//! A probe serves four purposes. Acknowledged bytes are delivered. The elapsed time is the round
//! trip. A growing round trip shows that bulk queues on the path; it had better wait here. A peer
//! that acknowledges is alive. This file keeps time only; the link sends.
//!
//! Over a near path the limit of bytes in flight shrinks when the round trip grows. Over a far path
//! round trips grow for other reasons, too: TCP slow start, and retransmissions that hold back
//! later data. There the limit follows the bandwidth estimate ([`BandwidthEstimate`]), so that a
//! TCP with data to send determines the rate, and bulk has a pace ([`BulkPace`]).

mod bandwidth;
mod pace;

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use self::{
    bandwidth::{BandwidthEstimate, Delivery},
    pace::BulkPace,
};
use crate::{
    limits::SILENCE_TIMEOUT, link_io::MAX_UNSENT_BYTES, path::FAR_RTT, websocket::SocketRole,
};

/// Interval of probes while anything is sent; windows are sized by the result.
const ACTIVE_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// Silence of the hub after which an agent probes it, with 10 % of jitter. The acknowledgement has a
/// few seconds before the peer counts as dead. Messages of either side put the probe off, so a link
/// with any traffic pays nothing for it.
const IDLE_PROBE_DELAY_AGENT: Duration = Duration::from_secs(6);
/// As [`IDLE_PROBE_DELAY_AGENT`], of a hub: the probe of a living agent comes first.
const IDLE_PROBE_DELAY_HUB: Duration = Duration::from_secs(8);
/// Time by which the timer may be early: it is reset once for so much traffic, and wakes an idle link seldom.
const MAX_TIMER_LAG: Duration = Duration::from_secs(3);
/// Growth of the round trip at which bulk is held back; at least an eighth of the round trip,
/// because a burst queues on a long path.
const MAX_QUEUE_DELAY: Duration = Duration::from_millis(1);
/// As [`MAX_QUEUE_DELAY`], while small messages are in flight.
const MAX_QUEUE_DELAY_INTERACTIVE: Duration = Duration::from_micros(50);
/// Initial limit of bytes in flight.
const INITIAL_LIMIT: u64 = 64 * 1024;
const MIN_LIMIT: u64 = 16 * 1024;
/// Smallest distance of probes under bulk, in bytes.
const MIN_PROBE_DISTANCE: u64 = 8 * 1024;
/// Limit of unacknowledged probes.
const MAX_PROBES_IN_FLIGHT: usize = 32;
/// Age at which the smallest round trip is measured again, with an empty queue, if none has come
/// near it.
const MAX_RTT_AGE: Duration = Duration::from_secs(10);
/// As [`MAX_RTT_AGE`], for a near path that seems to have become far, or that others fill. Little is
/// sent until that is known.
const MAX_RTT_AGE_MOVED: Duration = Duration::from_millis(500);

struct AckProbe {
    count: u64,
    at: Instant,
    /// Time for which the bytes in flight had been sent: since the probe that was acknowledged last.
    sending: Duration,
    /// Bytes in flight when it was sent.
    flight: u64,
    /// Bulk before it was held back by its pace.
    held: bool,
}

pub(crate) struct CongestionControl {
    out: VecDeque<AckProbe>,
    /// Count of the last probe sent.
    probed: u64,
    /// Time at which the probe acknowledged last was sent.
    acknowledged: Option<Instant>,
    /// Limit of bytes in flight for bulk, and its upper bound.
    limit: u64,
    most: u64,
    least: Option<Duration>,
    bandwidth: Box<BandwidthEstimate>,
    pace: BulkPace,
    /// Time of the last round trip close to the smallest.
    near: Instant,
    /// Bulk waits until everything is acknowledged and one probe has measured the empty path.
    draining: bool,
    /// Time of the last reduction of the limit. Probes sent before it carry no new information.
    shrunk: Option<Instant>,
    rtt: Option<Duration>,
    /// Moving average of the round trip.
    smooth: Option<Duration>,
    heard: Instant,
    /// Time of the last probe.
    asked: Option<Instant>,
    /// Time of the next probe if nothing is sent or heard until then.
    due: Instant,
    /// Delay until that time, new after each probe, and its mean.
    idle_delay: Duration,
    mean_idle_delay: Duration,
    timer: Pin<Box<Sleep>>,
    interactive: bool,
}

/// Acknowledgement of a probe that is not in flight.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownProbe;

/// Message to send now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Probe,
    /// A probe after a long idle time, with a WebSocket ping for middleboxes.
    IdleProbe,
}

impl CongestionControl {
    /// `sent` is the count before this link; the limit never exceeds `most`.
    pub(crate) fn new(sent: u64, most: u64, role: SocketRole) -> Self {
        let mean_idle_delay = match role {
            SocketRole::Agent => IDLE_PROBE_DELAY_AGENT,
            SocketRole::Hub => IDLE_PROBE_DELAY_HUB,
        };
        let now = Instant::now();
        // A new session sends data at once, and the first probe with it. A resumed one may have
        // nothing to send.
        let due = if sent == 0 {
            now + ACTIVE_PROBE_INTERVAL
        } else {
            now
        };
        CongestionControl {
            out: VecDeque::new(),
            probed: sent,
            acknowledged: None,
            limit: INITIAL_LIMIT,
            most: most.max(MIN_LIMIT),
            least: None,
            bandwidth: Box::new(BandwidthEstimate::new()),
            pace: BulkPace::new(sent, now),
            near: now,
            draining: false,
            shrunk: None,
            rtt: None,
            smooth: None,
            heard: now,
            asked: None,
            due,
            idle_delay: mean_idle_delay,
            mean_idle_delay,
            timer: Box::pin(sleep_until(due)),
            interactive: false,
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Time until an effect of a message is seen: over a far path with the time in queues.
    pub(crate) fn distance(&self) -> Option<Duration> {
        if self.is_far() {
            self.smooth
        } else {
            self.least
        }
    }

    fn is_far(&self) -> bool {
        self.least.is_some_and(|least| least >= FAR_RTT)
    }

    /// Time of the last sign of life.
    pub(crate) fn last_heard(&self) -> Instant {
        self.heard
    }

    /// Records a sign of life: a message of the link.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
        // The first probe measures the round trip.
        if self.asked.is_some() {
            self.due = self.heard + self.idle_delay;
        }
    }

    /// Sets whether small messages are in flight, which nothing must delay.
    pub(crate) fn interactive(&mut self, busy: bool) {
        self.interactive = busy;
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Bytes that the kernel may hold unsent.
    pub(crate) fn max_unsent(&self) -> u32 {
        let far = self.least.filter(|&least| least >= FAR_RTT);
        far.map_or(MAX_UNSENT_BYTES, |least| self.bandwidth.max_unsent(least))
    }

    /// Bytes of bulk that may be sent in addition to `flight`.
    pub(crate) fn bulk_room(&self, flight: u64) -> usize {
        if self.draining || self.pace.is_held() {
            return 0;
        }
        usize::try_from(self.limit.saturating_sub(flight)).unwrap_or(usize::MAX)
    }

    /// Decides after each message whether a probe is due.
    pub(crate) fn due(&mut self, sent: u64, flight: u64, now: Instant) -> Due {
        let best = if self.is_far() {
            self.bandwidth.tight_rate()
        } else {
            None
        };
        self.pace.sent(sent, best, now);
        let unprobed = sent.saturating_sub(self.probed);
        if self.out.len() >= MAX_PROBES_IN_FLIGHT {
            return Due::Nothing;
        }
        // A full flight without a probe would wait forever.
        let stuck = self.out.is_empty() && (flight >= self.limit || self.draining);
        let step = self.limit
            / if self.is_far() {
                bandwidth::PROBES_PER_FLIGHT
            } else {
                4
            };
        if stuck || (unprobed > 0 && unprobed >= step.max(MIN_PROBE_DISTANCE)) {
            return Due::Probe;
        }
        if unprobed > 0
            && self
                .asked
                .is_none_or(|asked| now >= asked + ACTIVE_PROBE_INTERVAL)
        {
            return Due::Probe;
        }
        if now < self.due {
            return Due::Nothing;
        }
        if self.out.back().is_some_and(|probe| probe.count == sent) {
            // Two probes with one count could not be told apart; the first is enough.
            self.due = now + self.idle_delay;
            return Due::Nothing;
        }
        Due::IdleProbe
    }

    pub(crate) fn sent(&mut self, count: u64, flight: u64) {
        let at = Instant::now();
        (self.probed, self.asked) = (count, Some(at));
        self.idle_delay = self.mean_idle_delay.mul_f64(0.9 + 0.2 * chance());
        self.due = at + self.idle_delay;
        // Without a probe in flight the path was empty.
        let sending = match self.acknowledged {
            Some(before) if !self.out.is_empty() => at - before,
            _ => Duration::ZERO,
        };
        self.out.push_back(AckProbe {
            count,
            at,
            sending,
            flight,
            held: self.pace.take_was_held(),
        });
    }

    /// Handles the acknowledgement of `count` bytes. It may cover several probes.
    pub(crate) fn answered(&mut self, count: u64) -> Result<(), UnknownProbe> {
        let at = self.out.iter().position(|probe| probe.count == count);
        let probe = at.and_then(|at| self.out.drain(..=at).next_back());
        let probe = probe.ok_or(UnknownProbe)?;
        let now = Instant::now();
        let rtt = now - probe.at;
        self.acknowledged = Some(probe.at);
        self.rtt = Some(rtt);
        self.smooth = Some(self.smooth.map_or(rtt, |smooth| (3 * smooth + rtt) / 4));
        if probe.flight < MIN_LIMIT {
            // It has met no queue of ours.
            if now - self.near > self.queue_time(rtt) {
                if !self.is_far() {
                    *self.bandwidth = BandwidthEstimate::new();
                }
                self.least = Some(rtt);
            }
            self.draining = false;
        }
        self.adapt(now, &probe);
        Ok(())
    }

    /// Time for which round trips like this one are attributed to a queue.
    fn queue_time(&self, rtt: Duration) -> Duration {
        let moved = |least| least < FAR_RTT && rtt >= FAR_RTT;
        if self.least.is_some_and(moved) {
            MAX_RTT_AGE_MOVED
        } else {
            MAX_RTT_AGE
        }
    }

    fn adapt(&mut self, now: Instant, probe: &AckProbe) {
        let (rtt, flight) = (now - probe.at, probe.flight);
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        let queue = if self.interactive {
            MAX_QUEUE_DELAY_INTERACTIVE
        } else {
            MAX_QUEUE_DELAY
        };
        let target = least + queue.max(least / 8);
        let full = flight >= self.limit / 2;
        let far = least >= FAR_RTT;
        if far {
            let delivery = Delivery {
                flight,
                // After a repeat of TCP much is acknowledged at once that has taken longer.
                time: rtt.max(probe.sending),
                count: probe.count,
                sent: self.probed,
                full: full || probe.held,
            };
            self.bandwidth.delivered(&delivery, now);
        }
        if rtt < target {
            self.near = now;
            // A flight below the limit says nothing about a larger one.
            if full {
                self.grow(far);
            }
        } else if self.shrunk.is_none_or(|shrunk| probe.at >= shrunk) {
            self.shrink(target.as_secs_f64() / rtt.as_secs_f64(), now);
        }
        if far {
            let smoothed = self.smooth.unwrap_or(rtt);
            let flight = self.bandwidth.flight(least, target, smoothed);
            self.limit = self.limit.max(flight);
        }
        self.limit = self.limit.clamp(MIN_LIMIT, self.most);
        if now - self.near > self.queue_time(rtt) && flight >= MIN_LIMIT {
            // Either the path has become longer, or the queue is not ours: measure an empty one.
            self.draining = true;
        }
    }

    fn grow(&mut self, far: bool) {
        let step = match (far, self.shrunk) {
            (true, _) => 16 * bandwidth::PROBES_PER_FLIGHT,
            (false, None) => 4,
            (false, Some(_)) => 16,
        };
        self.limit += self.limit / step;
    }

    /// Bytes in flight divided by the round trip are the path's rate. Moves half-way to the flight
    /// with the target round trip, which is the `target` part of the present one.
    fn shrink(&mut self, target: f64, now: Instant) {
        self.limit = (self.limit as f64 * (1.0 + target) / 2.0) as u64;
        self.shrunk = Some(now);
    }

    /// Runs the timer and schedules the next wake-up. Returns an error if the peer is dead;
    /// `looked` tells that all received data was processed.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        looked: bool,
        mut now: Instant,
    ) -> Result<(), Duration> {
        loop {
            let dead = self.heard + SILENCE_TIMEOUT;
            if looked && now >= dead {
                return Err(SILENCE_TIMEOUT);
            }
            if self.due <= now && self.out.len() < MAX_PROBES_IN_FLIGHT {
                // It is sent in this round, which polls again.
                return Ok(());
            }
            if self.pace.release(now) {
                cx.waker().wake_by_ref();
            }
            let next = if self.due <= now {
                dead
            } else {
                dead.min(self.due)
            };
            let next = self.pace.release_time().map_or(next, |at| next.min(at));
            // Each message moves the deadline, and the timer follows seldom.
            let set = self.timer.deadline();
            if self.timer.is_elapsed() || next < set || next > set + MAX_TIMER_LAG {
                self.timer
                    .as_mut()
                    .reset(next.max(now + Duration::from_millis(1)));
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => now = Instant::now(),
                Poll::Pending => return Ok(()),
            }
        }
    }
}

/// Random number between 0 and 1; predictable values are harmless.
fn chance() -> f64 {
    let [byte, ..] = RandomState::new().hash_one(0).to_ne_bytes();
    f64::from(byte) / 255.0
}

#[cfg(test)]
mod tests;
