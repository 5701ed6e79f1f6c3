//! Thousands of agents without clusters, on a thread of their own.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, bail};
use fairlead_api::JoinString;
use futures_util::{StreamExt as _, stream};
use rustls::ClientConfig;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::light_agent::LightAgent;
use crate::hub::process::Hub;

/// Agents that enrol at the same time. The hub bounds the number of handshakes without an identity.
const MAX_ENROLLING: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Number of events, and the time of the last one.
pub(super) struct Milestone {
    begun: Mutex<Instant>,
    count: AtomicUsize,
    last_micros: AtomicU64,
}

impl Milestone {
    fn new() -> Self {
        Milestone {
            begun: Mutex::new(Instant::now()),
            count: AtomicUsize::new(0),
            last_micros: AtomicU64::new(0),
        }
    }

    /// Starts to count anew, from `begun` on.
    fn reset(&self, begun: Instant) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        self.count.store(0, Relaxed);
        self.last_micros.store(0, Relaxed);
    }

    pub(super) fn note(&self, events: usize) {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_micros.fetch_max(micros, Relaxed);
        self.count.fetch_add(events, Relaxed);
    }

    /// Seconds from the start to the last event.
    pub(super) fn seconds(&self) -> f64 {
        self.last_micros.load(Relaxed) as f64 / 1e6
    }
}

/// State that agents and measurement share.
pub(super) struct FleetShared {
    connected: Milestone,
    /// Specs that agents have.
    pub(super) specs: Milestone,
    /// Deployments whose newest generation is reported as ready.
    pub(super) ready: Milestone,
    /// Reports of changed states.
    pub(super) reported: Milestone,
    /// Sessions that have ended.
    pub(super) lost: AtomicUsize,
    /// True: agents fetch specs and artifacts, and upload runs.
    pub(super) fetches: AtomicBool,
    pub(super) artifact_bytes: AtomicU64,
    failures: AtomicU64,
    last_failure: Mutex<String>,
}

impl FleetShared {
    pub(super) fn note_failure(&self, error: &anyhow::Error) {
        self.failures.fetch_add(1, Relaxed);
        let mut last = self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = format!("{error:#}");
    }
}

pub(super) struct LightFleet {
    pub(super) shared: Arc<FleetShared>,
    size: usize,
    /// Number of the last round of reports. Dropping it ends all agents.
    rounds: Option<watch::Sender<u32>>,
    thread: Option<JoinHandle<()>>,
}

impl LightFleet {
    /// Starts an agent for each join string.
    pub(super) fn start(joins: Vec<JoinString>, outer: Arc<ClientConfig>) -> anyhow::Result<Self> {
        let shared = Arc::new(FleetShared {
            connected: Milestone::new(),
            specs: Milestone::new(),
            ready: Milestone::new(),
            reported: Milestone::new(),
            lost: AtomicUsize::new(0),
            fetches: AtomicBool::new(false),
            artifact_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_failure: Mutex::default(),
        });
        let (rounds, receiver) = watch::channel(0);
        let size = joins.len();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let for_agents = Arc::clone(&shared);
        // A thread of its own, so that the agents' work does not delay the clocks of the measurement.
        let thread = std::thread::Builder::new().name("agents".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(run(joins, outer, for_agents, receiver));
        });
        Ok(LightFleet {
            shared,
            size,
            rounds: Some(rounds),
            thread: Some(thread.context("no thread")?),
        })
    }

    pub(super) async fn until_connected(&self, hub: &mut Hub) -> anyhow::Result<()> {
        let of = |it: &FleetShared| it.connected.count.load(Relaxed);
        self.until(hub, ("agents connected", self.size), of).await
    }

    pub(super) async fn until_ready(
        &self,
        hub: &mut Hub,
        deployments: usize,
    ) -> anyhow::Result<()> {
        let of = |it: &FleetShared| it.ready.count.load(Relaxed);
        self.until(hub, ("deployments ready", deployments), of)
            .await
    }

    /// Starts to count specs and ready deployments anew.
    pub(super) fn begin_wave(&self, begun: Instant) {
        self.shared.specs.reset(begun);
        self.shared.ready.reset(begun);
        self.shared.artifact_bytes.store(0, Relaxed);
    }

    /// Lets each agent report one changed state.
    pub(super) async fn report_round(&self, hub: &mut Hub) -> anyhow::Result<()> {
        self.shared.reported.reset(Instant::now());
        if let Some(rounds) = &self.rounds {
            rounds.send_modify(|it| *it += 1);
        }
        let of = |it: &FleetShared| it.reported.count.load(Relaxed);
        self.until(hub, ("states reported", self.size), of).await
    }

    async fn until(
        &self,
        hub: &mut Hub,
        (what, wanted): (&str, usize),
        count: impl Fn(&FleetShared) -> usize,
    ) -> anyhow::Result<()> {
        let limit =
            Duration::from_secs(120) + Duration::from_millis(60) * u32::try_from(self.size)?;
        let (deadline, mut next) = (Instant::now() + limit, Instant::now() + PROGRESS_INTERVAL);
        loop {
            let now = count(&self.shared);
            if now >= wanted {
                return Ok(());
            }
            hub.alive()?;
            if Instant::now() > deadline {
                bail!(
                    "{now} of {wanted} {what} after {limit:?}; {}",
                    self.failures()
                );
            }
            if Instant::now() > next {
                eprintln!("  {now} of {wanted} {what}");
                next += PROGRESS_INTERVAL;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Number of failed requests, ended sessions, and the last cause.
    pub(super) fn failures(&self) -> String {
        let last = self.shared.last_failure.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner);
        let failures = self.shared.failures.load(Relaxed);
        let lost = self.shared.lost.load(Relaxed);
        format!("{failures} failed requests, {lost} ended sessions; the last cause: {last:?}")
    }

    pub(super) fn has_failures(&self) -> bool {
        self.shared.failures.load(Relaxed) > 0 || self.shared.lost.load(Relaxed) > 0
    }
}

impl Drop for LightFleet {
    fn drop(&mut self) {
        self.rounds = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the thread of the agents has failed");
        }
    }
}

/// Runs all agents until the sender of rounds is dropped.
async fn run(
    joins: Vec<JoinString>,
    outer: Arc<ClientConfig>,
    shared: Arc<FleetShared>,
    mut rounds: watch::Receiver<u32>,
) {
    let receiver = rounds.clone();
    let joining = stream::iter(joins.into_iter().enumerate());
    let joining = joining.for_each_concurrent(MAX_ENROLLING, |(number, join)| {
        let (outer, shared, rounds) = (outer.clone(), shared.clone(), receiver.clone());
        async move {
            loop {
                match LightAgent::join(number, &join, outer.clone(), shared.clone()).await {
                    Ok(agent) => {
                        shared.connected.note(1);
                        drop(tokio::spawn(agent.run(rounds)));
                        return;
                    }
                    Err(error) => shared.note_failure(&error),
                }
                sleep(PROGRESS_INTERVAL).await;
            }
        }
    });
    let ended = async { while rounds.changed().await.is_ok() {} };
    tokio::select! {
        () = async { joining.await; std::future::pending().await } => {}
        () = ended => {}
    }
}
