//! Idle transports. The most recently used one is taken first, so that surplus transports grow old. A transport
//! that died while idle is never used.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use fairlead_dialer::sync::lock;
use tokio::time::sleep;

use crate::transport::Transport;

/// Longest idle time of a transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Sweeps in that time. An idle transport counts them instead of having a time of its own, so no request reads the clock for it.
const MAX_SWEEPS: u32 = 4;

pub(crate) struct Pool<W> {
    idle: Mutex<Idle<W>>,
    max: usize,
}

struct Idle<W> {
    /// Transports with the sweeps that each has survived, the newest last.
    transports: VecDeque<(W, u32)>,
    swept: bool,
}

impl<W: Transport> Pool<W> {
    pub(crate) fn new(max: usize) -> Self {
        Pool {
            idle: Mutex::new(Idle {
                transports: VecDeque::new(),
                swept: false,
            }),
            max,
        }
    }

    /// The newest transport that is fit for a request.
    pub(crate) fn take(&self) -> Option<W> {
        loop {
            // Dropped outside the lock, because closing a transport takes time.
            let (mut transport, _) = lock(&self.idle).transports.pop_back()?;
            if transport.is_idle() {
                return Some(transport);
            }
        }
    }

    /// Drops the oldest transport; false if there is none.
    pub(crate) fn shrink(&self) -> bool {
        // Dropped outside the lock, as above.
        let oldest = lock(&self.idle).transports.pop_front();
        oldest.is_some()
    }

    pub(crate) fn put(self: &Arc<Self>, transport: W) {
        let mut idle = lock(&self.idle);
        let oldest = (idle.transports.len() >= self.max).then(|| idle.transports.pop_front());
        idle.transports.push_back((transport, 0));
        if !idle.swept {
            idle.swept = true;
            // Ends with the pool, or when the pool is empty.
            drop(tokio::spawn(sweep(Arc::downgrade(self))));
        }
        drop(idle);
        drop(oldest);
    }
}

/// Drops transports that are too old or dead.
async fn sweep<W: Transport>(pool: Weak<Pool<W>>) {
    loop {
        sleep(IDLE_TIMEOUT / MAX_SWEEPS).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = lock(&pool.idle);
        idle.transports.retain_mut(|(transport, sweeps)| {
            *sweeps += 1;
            *sweeps <= MAX_SWEEPS && transport.is_idle()
        });
        if idle.transports.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
