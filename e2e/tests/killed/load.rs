//! Many concurrent writers without pauses, and one watcher of changes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{RawClient, link::Random};
use serde_json::Value;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    client::{LoadClient, Request},
    operation::{LoadOperation, LoadStep, LoadWorld, Secrets, TOKEN, manifests},
    snapshot::{Snapshot, read_page},
};

const STEP_DEADLINE: Duration = Duration::from_secs(20);

/// A writer, and the state that it knows.
pub(crate) struct ClusterWriter {
    pub(crate) number: usize,
    token: String,
    random: Random,
    /// Operations started so far.
    begun: u64,
    secrets: Secrets,
    /// Acknowledged worlds since the load began: the first, and one per step.
    pub(crate) worlds: Vec<LoadWorld>,
    pub(crate) steps: Vec<LoadStep>,
    pub(crate) in_flight: Option<InFlightWrites>,
}

/// An operation that is not acknowledged yet, and the world after it.
pub(crate) struct InFlightWrites {
    operation: LoadOperation,
    pub(crate) world: LoadWorld,
    pub(crate) step: LoadStep,
}

/// Shared state of the writers and the task that ends them.
struct Course {
    answers: watch::Sender<u64>,
    /// Requests may fail from now on.
    ends: AtomicBool,
}

impl ClusterWriter {
    pub(crate) fn new(number: usize, token: String, seed: u64) -> Self {
        ClusterWriter {
            number,
            token,
            random: Random::new(seed.wrapping_add(number as u64)),
            begun: 0,
            secrets: Secrets::default(),
            worlds: vec![LoadWorld::new()],
            steps: Vec::new(),
            in_flight: None,
        }
    }

    pub(crate) fn world(&self) -> LoadWorld {
        self.worlds.last().cloned().unwrap_or_default()
    }

    async fn write(mut self, front: RawClient, course: Arc<Course>) -> anyhow::Result<Self> {
        let mut client = LoadClient::new(front);
        self.worlds = vec![self.world()];
        self.steps.clear();
        loop {
            let before = self.world();
            let known = (&before, &self.secrets);
            let operation = LoadOperation::choose(self.number, self.begun, known, &mut self.random);
            self.begun += 1;
            let mut world = before.clone();
            let step = operation.done(&mut world);
            let request = operation.request(&self.token, &self.secrets, &before);
            let in_flight = self.in_flight.insert(InFlightWrites {
                operation,
                world,
                step,
            });
            match client.good(&request).await {
                Ok(answer) => in_flight.operation.learn(&answer, &mut self.secrets)?,
                Err(_) if course.ends.load(SeqCst) => return Ok(self),
                Err(error) => {
                    let operation = &in_flight.operation;
                    return Err(error.context(format!("{operation:?} in {before:?}")));
                }
            }
            if let Some(done) = self.in_flight.take() {
                self.worlds.push(done.world);
                self.steps.push(done.step);
            }
            course.answers.send_modify(|answers| *answers += 1);
        }
    }

    /// Compares the acknowledged state with the visible one. The operation in flight may be applied or not.
    pub(crate) fn compare(&mut self, seen: &Snapshot) -> anyhow::Result<()> {
        let logged = seen.steps(self.number);
        let more = logged.strip_prefix(self.steps.as_slice());
        let more = more.with_context(|| {
            let mut both = self.steps.iter().zip(logged.iter().map(Some).chain([None]));
            let lost = both.find(|(answered, logged)| Some(*answered) != *logged);
            format!(
                "writer {} was answered, and the log has: {lost:?}",
                self.number
            )
        })?;
        let in_flight = self.in_flight.take();
        match (more, in_flight) {
            ([], _) => {}
            ([more], Some(it)) if *more == it.step => {
                self.worlds.push(it.world);
                self.steps.push(it.step);
                self.secrets.forget(&it.operation);
            }
            _ => anyhow::bail!("writer {} has never asked for {more:?}", self.number),
        }
        let world = self.world();
        same(self.number, &world, &seen.world(self.number))?;
        let mine = seen.ids.iter();
        for (name, id) in mine.filter(|(name, _)| world.contains_key(&format!("{TOKEN}{name}"))) {
            self.secrets.found(name, id);
        }
        Ok(())
    }

    /// Checks that spent and revoked secrets are rejected and the others accepted.
    pub(crate) async fn try_secrets(&mut self, client: &mut LoadClient) -> anyhow::Result<()> {
        let refused = |secret, (status, body): (u16, Value)| {
            ensure!(status == 401, "{secret}: {status} {body}");
            Ok(())
        };
        if let Some(spent) = self.secrets.spent.take() {
            let mut request = Request::get(manifests(&spent), "");
            request.token = None;
            refused("a spent token", client.ask(&request).await?)?;
        }
        if let Some(revoked) = self.secrets.revoked.take() {
            let answer = client.ask(&Request::get("/v1/whoami", &revoked)).await?;
            refused("a revoked token", answer)?;
        }
        if let Some(good) = self.secrets.good(&self.world()) {
            client.good(&Request::get("/v1/whoami", good)).await?;
        }
        Ok(())
    }
}

/// Compares two worlds. The error names only the differences.
pub(crate) fn same(writer: usize, expected: &LoadWorld, there: &LoadWorld) -> anyhow::Result<()> {
    let of = |world: &LoadWorld, other: &LoadWorld| -> BTreeMap<String, Value> {
        let all = world.iter().filter(|(key, it)| other.get(*key) != Some(it));
        all.map(|(key, it)| (key.clone(), it.clone())).collect()
    };
    let (expected, there) = (of(expected, there), of(there, expected));
    ensure!(
        expected.is_empty() && there.is_empty(),
        "writer {writer}: expected {expected:?}, there is {there:?}"
    );
    Ok(())
}

pub(crate) struct KilledLoad {
    writers: JoinSet<anyhow::Result<ClusterWriter>>,
    watcher: JoinHandle<anyhow::Result<WatchedChanges>>,
    course: Arc<Course>,
}

/// The ended writers and the changes that the watcher received.
pub(crate) struct EndedWriter {
    pub(crate) writers: Vec<ClusterWriter>,
    pub(crate) watched: WatchedChanges,
    pub(crate) answers: u64,
}

pub(crate) struct WatchedChanges {
    /// Last revision received.
    pub(crate) revision: u64,
    pub(crate) lines: Vec<Value>,
}

impl KilledLoad {
    pub(crate) fn start(
        front: &RawClient,
        token: &str,
        writers: Vec<ClusterWriter>,
        since: u64,
    ) -> Self {
        let course = Arc::new(Course {
            answers: watch::Sender::new(0),
            ends: AtomicBool::new(false),
        });
        let begin = |writer: ClusterWriter| writer.write(front.clone(), Arc::clone(&course));
        let watching = watch(front.clone(), token.to_owned(), since, Arc::clone(&course));
        KilledLoad {
            writers: writers.into_iter().map(begin).collect(),
            watcher: tokio::spawn(watching),
            course,
        }
    }

    /// Waits for this many further acknowledged writes.
    pub(crate) async fn answers(&self, more: u64) -> anyhow::Result<()> {
        let mut answers = self.course.answers.subscribe();
        let enough = self.answered() + more;
        let come = timeout(
            STEP_DEADLINE,
            answers.wait_for(|answers| *answers >= enough),
        )
        .await;
        come.context("nothing is answered any more")??;
        Ok(())
    }

    /// Acknowledged writes so far.
    pub(crate) fn answered(&self) -> u64 {
        *self.course.answers.borrow()
    }

    /// Permits requests to fail from now on.
    pub(crate) fn ends(&self) {
        self.course.ends.store(true, SeqCst);
    }

    pub(crate) async fn ended(mut self) -> anyhow::Result<EndedWriter> {
        let mut writers = Vec::new();
        while let Some(writer) = self.writers.join_next().await {
            writers.push(writer??);
        }
        writers.sort_by_key(|writer| writer.number);
        let answers = self.answered();
        Ok(EndedWriter {
            writers,
            watched: self.watcher.await??,
            answers,
        })
    }
}

async fn watch(
    front: RawClient,
    token: String,
    since: u64,
    course: Arc<Course>,
) -> anyhow::Result<WatchedChanges> {
    let mut client = LoadClient::new(front);
    let mut watched = WatchedChanges {
        revision: since,
        lines: Vec::new(),
    };
    loop {
        let path = format!("/v1/changes?since={}&wait=10", watched.revision);
        match client.good(&Request::get(path, &token)).await {
            Ok(page) => {
                let (revision, lines) = read_page(&page)?;
                watched.revision = revision;
                watched.lines.extend(lines);
            }
            Err(_) if course.ends.load(SeqCst) => return Ok(watched),
            Err(error) => return Err(error.context("watching")),
        }
    }
}
