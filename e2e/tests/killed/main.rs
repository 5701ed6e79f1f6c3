//! A hub that is killed during writes.
//!
//! After its restart every acknowledged write exists, every other one exists completely or not at all, and
//! the log lists each change once. Backups taken meanwhile are consistent states.
//!
//! `FAIRLEAD_E2E_KILLS` sets the number of kills (5), `FAIRLEAD_E2E_SEED` the operations and the times of the
//! kills, which otherwise differ in each run.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod backup;
mod client;
mod load;
mod operation;
mod snapshot;

use std::{
    hash::{BuildHasher, RandomState},
    mem::take,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, PostgresServer, link::Random, setting};
use serde_json::json;
use tokio::time::{sleep, timeout};

use client::{LoadClient, Request};
use load::{ClusterWriter, EndedWriter, KilledLoad};
use snapshot::{Snapshot, goes_on, whole_log};

const WRITER_COUNT: usize = 8;
/// Longest life of a hub after its first answer.
const MAX_HUB_LIFE: Duration = Duration::from_millis(400);
/// Share of hubs that are killed again during their start, and the length of that start.
const EARLY_KILL_SHARE: f64 = 0.2;
const START_TIME: Duration = Duration::from_millis(100);
/// Kills between two progress messages and full checks, which take longer each time.
const KILLS_PER_CHECK: u32 = 25;

/// A hub on a store of its own, and its writers with their acknowledged state.
struct Trial {
    name: &'static str,
    hub: Hub,
    /// Flags that select the store.
    store: Vec<String>,
    _server: Option<PostgresServer>,
    token: String,
    /// Token of a caller without operations of its own.
    marker: String,
    writers: Vec<ClusterWriter>,
    /// Revision of the last check.
    revision: u64,
    answers: u64,
    /// Changes that exist without having been acknowledged.
    unheard: u64,
    /// Kills before the hub was ready.
    beginnings: u32,
}

impl Trial {
    async fn on_sqlite(seed: u64) -> anyhow::Result<Self> {
        Self::start("SQLite", Vec::new(), None, seed).await
    }

    async fn on_postgresql(seed: u64) -> anyhow::Result<Self> {
        let server = PostgresServer::start()?;
        let store = vec!["--store".to_owned(), server.url()];
        Self::start("PostgreSQL", store, Some(server), seed).await
    }

    async fn start(
        name: &'static str,
        store: Vec<String>,
        server: Option<PostgresServer>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        eprintln!("{name}: FAIRLEAD_E2E_SEED={seed}");
        // No token may expire during the test.
        let mut flags = vec!["--bootstrap-ttl".to_owned(), "7d".to_owned()];
        flags.extend(store.iter().cloned());
        let hub = Hub::start_server(&flags).await?;
        let (token, mut client) = (hub.token()?, LoadClient::new(hub.front()?));
        let mut own = async |number| {
            let body = json!({ "name": format!("w{number}"), "role": "admin" });
            let make = Request::post("/v1/tokens", &token, body);
            let made = client.good(&make).await?;
            let own = made["token"].as_str().context("no token")?;
            anyhow::Ok(own.to_owned())
        };
        let mut writers = Vec::new();
        for number in 0..WRITER_COUNT {
            writers.push(ClusterWriter::new(number, own(number).await?, seed));
        }
        let marker = own(WRITER_COUNT).await?;
        let now = client.good(&Request::get("/v1/changes", &token)).await?;
        Ok(Self {
            name,
            hub,
            store,
            _server: server,
            token,
            marker,
            writers,
            revision: snapshot::read_page(&now)?.0,
            answers: 0,
            unheard: 0,
            beginnings: 0,
        })
    }

    fn load(&mut self) -> anyhow::Result<KilledLoad> {
        let (front, writers) = (self.hub.front()?, take(&mut self.writers));
        Ok(KilledLoad::start(
            &front,
            &self.token,
            writers,
            self.revision,
        ))
    }

    async fn kill(&mut self, load: KilledLoad) -> anyhow::Result<EndedWriter> {
        load.ends();
        self.hub.process.kill_9()?;
        load.ended().await
    }

    /// Restarts the hub. Some are killed once more before they are ready.
    async fn come_back(&mut self, moments: &mut Random) -> anyhow::Result<()> {
        while moments.share() < EARLY_KILL_SHARE {
            let begins = self.hub.restart();
            // Dropping the future kills the hub.
            match timeout(START_TIME.mul_f64(moments.share()), begins).await {
                Ok(ready) => return ready,
                Err(_) => self.beginnings += 1,
            }
        }
        self.hub.restart().await
    }

    /// Compares the acknowledged and the watched changes with the visible state.
    async fn look(&mut self, mut ended: EndedWriter) -> anyhow::Result<Snapshot> {
        let mut client = LoadClient::new(self.hub.front()?);
        // A change in flight to a database at the kill arrives before this one or never.
        let mark = json!({ "displayName": format!("after {}", self.revision) });
        let mark = Request::patch("/tenants/t-default", &self.marker, mark);
        client.good(&mark).await?;
        let seen = Snapshot::at(&mut client, &self.token, self.revision).await?;
        let watched = &ended.watched;
        ensure!(
            watched.revision <= seen.revision,
            "the revision was {} and is {}",
            watched.revision,
            seen.revision
        );
        let shown = whole_log(self.revision, watched.revision, &watched.lines)?;
        goes_on(&seen.log, &shown)?;
        for writer in &mut ended.writers {
            writer.compare(&seen)?;
            writer.try_secrets(&mut client).await?;
        }
        self.writers = ended.writers;
        self.answers += ended.answers;
        self.unheard += seen.revision - self.revision - ended.answers - 1;
        self.revision = seen.revision;
        Ok(seen)
    }
}

/// Runs `fairlead store check` while nothing writes.
async fn check(hub: &Hub, store: &[String]) -> anyhow::Result<()> {
    let data = hub.data().display().to_string();
    let words = ["store", "check", "--data", &data].map(str::to_owned);
    let said = hub.cli([&words, store].concat()).await?.success()?;
    ensure!(said == "The store is whole.\n", "{said}");
    Ok(())
}

fn kills() -> anyhow::Result<u32> {
    let kills = setting("FAIRLEAD_E2E_KILLS").map(|kills| kills.parse());
    Ok(kills.transpose()?.unwrap_or(5))
}

fn seed() -> anyhow::Result<u64> {
    let seed = setting("FAIRLEAD_E2E_SEED").map(|seed| seed.parse());
    Ok(seed
        .transpose()?
        .unwrap_or_else(|| RandomState::new().hash_one(0)))
}

async fn killed_again_and_again(mut trial: Trial, seed: u64) -> anyhow::Result<()> {
    let (kills, mut moments) = (kills()?, Random::new(seed));
    for round in 1..=kills {
        let load = trial.load()?;
        load.answers(1).await?;
        sleep(MAX_HUB_LIFE.mul_f64(moments.share())).await;
        let ended = trial.kill(load).await?;
        trial.come_back(&mut moments).await?;
        let looked = trial.look(ended).await;
        looked.with_context(|| format!("after kill {round}"))?;
        if round % KILLS_PER_CHECK == 0 || round == kills {
            check(&trial.hub, &trial.store).await?;
            let Trial {
                name,
                answers,
                unheard,
                beginnings,
                ..
            } = &trial;
            eprintln!(
                "{name}: killed {round} of {kills} times, and {beginnings} times before it was ready: {answers} answered and there, {unheard} there and not answered, the store is whole"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn acknowledged_writes_survive_kills_and_none_is_partial() -> anyhow::Result<()> {
    let seed = seed()?;
    killed_again_and_again(Trial::on_sqlite(seed).await?, seed).await
}

#[tokio::test]
#[ignore = "needs a PostgreSQL: `make e2e-hubs`"]
async fn acknowledged_writes_in_postgresql_survive_kills_and_none_is_partial() -> anyhow::Result<()>
{
    let seed = seed()?;
    killed_again_and_again(Trial::on_postgresql(seed).await?, seed).await
}

#[tokio::test]
async fn backup_under_load_restores_a_consistent_state() -> anyhow::Result<()> {
    backup::are_states_that_were(Trial::on_sqlite(seed()?).await?).await
}

#[tokio::test]
#[ignore = "needs a PostgreSQL: `make e2e-hubs`"]
async fn backup_of_postgresql_under_load_restores_a_consistent_state() -> anyhow::Result<()> {
    backup::are_states_that_were(Trial::on_postgresql(seed()?).await?).await
}
