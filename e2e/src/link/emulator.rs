//! The forwarder: packets of one TUN device leave by the other at the time that [`Pipe`] computes. Each
//! direction has a thread of its own, because the millisecond timers of the runtime are too coarse.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use tokio::time::Instant;
use tokio_tun::Tun;

use super::shape::{LinkShape, Pipe};

/// Buffer of one packet, in bytes; larger than the MTU of 1500.
const PACKET_BUFFER_BYTES: usize = 4096;

/// One direction.
#[derive(Debug)]
pub struct LinkDirection {
    lane: Mutex<Lane>,
    changed: Condvar,
}

#[derive(Debug)]
struct Lane {
    pipe: Pipe,
    under_way: VecDeque<(Instant, Vec<u8>)>,
}

impl LinkDirection {
    /// Starts forwarding on the current runtime, until that ends.
    pub fn start(from: Arc<Tun>, to: Arc<Tun>, seed: u64) -> Arc<Self> {
        let direction = Arc::new(Self {
            lane: Mutex::new(Lane {
                pipe: Pipe::new(seed, Instant::now()),
                under_way: VecDeque::new(),
            }),
            changed: Condvar::new(),
        });
        let (taker, giver) = (Arc::clone(&direction), Arc::clone(&direction));
        tokio::spawn(async move { taker.take(&from).await });
        thread::spawn(move || giver.give(&to));
        direction
    }

    /// Changes this direction for later packets.
    pub fn set(&self, shape: LinkShape) {
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        lane.pipe.set(shape);
    }

    /// Ends with the device, and with it the link.
    async fn take(&self, from: &Tun) {
        let mut buffer = vec![0; PACKET_BUFFER_BYTES];
        while let Ok(length) = from.recv(&mut buffer).await {
            let packet = buffer.get(..length).unwrap_or_default();
            let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(due) = lane.pipe.arrive(Instant::now(), length as u64) {
                lane.under_way.push_back((due, packet.to_vec()));
                self.changed.notify_one();
            }
        }
    }

    fn give(&self, to: &Tun) {
        loop {
            let packet = self.next();
            // A device that is down or full drops the packet, like a cable that is pulled.
            drop(to.try_send(&packet));
        }
    }

    /// Waits until the next packet is due.
    fn next(&self) -> Vec<u8> {
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            let wait = lane
                .under_way
                .front()
                .map(|(due, _)| due.saturating_duration_since(now));
            lane = match wait {
                Some(wait) if wait.is_zero() => {
                    if let Some((_, packet)) = lane.under_way.pop_front() {
                        lane.pipe.left(packet.len() as u64);
                        return packet;
                    }
                    lane
                }
                Some(wait) => {
                    let woken = self.changed.wait_timeout(lane, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let woken = self.changed.wait(lane);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}
