//! Idle transports. The most recently used one is taken first, so that surplus transports grow old. A transport
//! that died while idle is never used. Those of the same thread come first, because events of the others wake two threads.

use std::{
    collections::VecDeque,
    ptr,
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
    /// The newest last.
    transports: VecDeque<IdleTransport<W>>,
    swept: bool,
}

struct IdleTransport<W> {
    transport: W,
    /// Sweeps that it has survived.
    sweeps: u32,
    thread: ThreadMark,
}

/// Address of a variable of a thread: cheaper than its id, which is counted.
type ThreadMark = usize;

thread_local! {
    static MARK: u8 = const { 0 };
}

fn this_thread() -> ThreadMark {
    MARK.with(|mark| ptr::from_ref(mark).addr())
}

impl<W> Idle<W> {
    fn pop(&mut self) -> Option<IdleTransport<W>> {
        let here = this_thread();
        let own = self.transports.iter().rposition(|it| it.thread == here);
        match own {
            Some(index) => self.transports.remove(index),
            None => self.transports.pop_back(),
        }
    }
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

    /// The newest transport that is fit for a request, one of this thread if there is any.
    pub(crate) fn take(&self) -> Option<W> {
        loop {
            // Dropped outside the lock, because closing a transport takes time.
            let IdleTransport { mut transport, .. } = lock(&self.idle).pop()?;
            if transport.is_idle() {
                return Some(transport);
            }
        }
    }

    pub(crate) fn put(self: &Arc<Self>, transport: W) {
        let mut idle = lock(&self.idle);
        let oldest = (idle.transports.len() >= self.max).then(|| idle.transports.pop_front());
        idle.transports.push_back(IdleTransport {
            transport,
            sweeps: 0,
            thread: this_thread(),
        });
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
        idle.transports.retain_mut(|it| {
            it.sweeps += 1;
            it.sweeps <= MAX_SWEEPS && it.transport.is_idle()
        });
        if idle.transports.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
