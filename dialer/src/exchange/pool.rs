//! Wires that wait for their next request. The one used last is used next, so that those in excess grow old; one that
//! died while it waited is never used.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::wire::Wire;
use crate::lock;

/// How long a wire may wait for its next request.
const IDLE: Duration = Duration::from_secs(60);

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

    /// The newest one that is fit for a request.
    pub(super) fn take(&self) -> Option<W> {
        loop {
            // Dropped without the lock, which closing one need not hold.
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
            // Ends with the pool, or when nothing is left to sweep.
            drop(tokio::spawn(sweep(Arc::downgrade(self))));
        }
        drop(idle);
        drop(oldest);
    }
}

/// Lets go of wires that have waited for too long, and of those that died.
async fn sweep<W: Wire>(pool: Weak<Pool<W>>) {
    loop {
        sleep(IDLE / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = lock(&pool.idle);
        idle.wires
            .retain_mut(|(wire, since)| since.elapsed() < IDLE && wire.is_idle());
        if idle.wires.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
