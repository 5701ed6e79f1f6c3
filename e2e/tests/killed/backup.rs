//! Backups during writes: each is the state at one revision.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, fleet::BACKUP_RECIPIENT};

use crate::{
    Trial, check,
    client::LoadClient,
    kills,
    load::{ClusterWriter, same},
    snapshot::{Snapshot, goes_on},
};

/// Acknowledged writes before each backup.
const WRITES_PER_BACKUP: u64 = 150;

pub(crate) async fn are_states_that_were(mut trial: Trial) -> anyhow::Result<()> {
    let backups = kills()?.div_ceil(25);
    let (begun, load) = (trial.revision, trial.load()?);
    let mut taken = Vec::new();
    for number in 0..backups {
        load.answers(WRITES_PER_BACKUP).await?;
        let known = load.answered();
        let file = trial.hub.dir().join(format!("{number}.backup"));
        back_up(&trial, &file).await?;
        taken.push((known, file));
    }
    load.answers(WRITES_PER_BACKUP).await?;
    let ended = trial.kill(load).await?;
    trial.hub.restart().await?;
    let seen = trial.look(ended).await?;
    for (known, file) in taken {
        let restored = Hub::start_restored(&file).await?;
        // A backup of any store can be restored to a file.
        check(&restored, &[]).await?;
        let mut client = LoadClient::new(restored.front()?);
        let then = Snapshot::at(&mut client, &trial.token, begun).await?;
        ensure!(
            then.revision >= begun + known,
            "it was begun with {known} answers, and is at {} of {begun}",
            then.revision
        );
        goes_on(&seen.log, &then.log)?;
        for writer in &trial.writers {
            was(writer, &then)?;
        }
    }
    eprintln!(
        "{}: {backups} backups under load restore to a past state",
        trial.name
    );
    Ok(())
}

/// Checks that replaying the log's changes of this writer leads to the restored state.
fn was(writer: &ClusterWriter, then: &Snapshot) -> anyhow::Result<()> {
    let steps = then.steps(writer.number).len();
    let world = writer.worlds.get(steps).context("more than was done")?;
    same(writer.number, world, &then.world(writer.number))
}

async fn back_up(trial: &Trial, file: &Path) -> anyhow::Result<()> {
    let words: [PathBuf; 6] = [
        "backup".into(),
        file.to_owned(),
        "--recipient".into(),
        BACKUP_RECIPIENT.into(),
        "--data".into(),
        trial.hub.data(),
    ];
    let words = words.map(|word| word.display().to_string());
    let words = [&words, trial.store.as_slice()].concat();
    trial.hub.cli(words).await?.success().map(drop)
}
