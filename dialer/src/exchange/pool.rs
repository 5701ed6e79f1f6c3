//! Idle wires. The most recently used one is taken first, so that surplus wires grow old. A wire
//! that died while idle is never used.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::wire::Wire;
use crate::lock;

/// Longest idle time of a wire.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Pool<W> {
    idle: Mutex<Idle<W>>,
    max: usize,
}

struct Idle<W> {
    /// The newest last.
    wires: VecDeque<(W, Instant)>,
    swept: bool,
}

impl<W: Wire> Pool<W> {
    pub(super) fn new(max: usize) -> Self {
        Pool {
            idle: Mutex::new(Idle {
                wires: VecDeque::new(),
                swept: false,
            }),
            max,
        }
    }

    /// The newest wire that is fit for a request.
    pub(super) fn take(&self) -> Option<W> {
        loop {
            // Dropped outside the lock, because closing a wire takes time.
            let (mut wire, _) = lock(&self.idle).wires.pop_back()?;
            if wire.is_idle() {
                return Some(wire);
            }
        }
    }

    pub(super) fn put(self: &Arc<Self>, wire: W) {
        let mut idle = lock(&self.idle);
        let oldest = (idle.wires.len() >= self.max).then(|| idle.wires.pop_front());
        idle.wires.push_back((wire, Instant::now()));
        if !idle.swept {
            idle.swept = true;
            // Ends with the pool, or when the pool is empty.
            drop(tokio::spawn(sweep(Arc::downgrade(self))));
        }
        drop(idle);
        drop(oldest);
    }
}

/// Drops wires that are too old or dead.
async fn sweep<W: Wire>(pool: Weak<Pool<W>>) {
    loop {
        sleep(IDLE_TIMEOUT / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = lock(&pool.idle);
        idle.wires
            .retain_mut(|(wire, since)| since.elapsed() < IDLE_TIMEOUT && wire.is_idle());
        if idle.wires.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
