//! Operations on a hub's data as a whole: backup while the hub runs, restore while it is stopped,
//! integrity check.

mod failure;
mod leftovers;
mod sealed;
mod stage;

use std::{
    io::BufRead,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use fairlead_api::{
    Code, Failure,
    resources::{CreateToken, CreatedToken},
};
use fairlead_registry::mint;
use fairlead_store::{
    Actor, Clock, DataDir, DumpError, Place, Store, Tallies, claim::Claim, dump,
    unusable as unusable_store,
};
use time::OffsetDateTime;

use crate::{
    epoch,
    files::{ALL_KEYS, KEYS, RESTORING, STORE_FILE},
    local,
};
use failure::unusable;
use leftovers::Leftovers;
use stage::Stage;

pub use sealed::{Sink, opened};

/// Treatment of the identities and API tokens of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredAccess {
    /// Void until an admin confirms them: some may have been revoked after the backup.
    AwaitsConfirmation,
    /// Valid at once: the operator knows that nothing was revoked since.
    Kept,
}

/// Treatment of the deliveries of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredDeliveries {
    /// Generations keep their numbers: agents refuse those below the highest one that they know (`FL-6305`).
    Kept,
    /// The newest generation of each bundle gets a number above all that agents may know, and is delivered again.
    Again,
}

/// Location of a hub's data: its folder and its store.
#[derive(Debug, Clone)]
pub struct HubData {
    /// The hub's data folder.
    pub data_dir: PathBuf,
    /// Defaults to a file in `data_dir`.
    pub store: Option<Place>,
}

impl HubData {
    pub(crate) fn place(&self) -> Place {
        let file = || Place::File(self.data_dir.join(STORE_FILE));
        self.store.clone().unwrap_or_else(file)
    }

    /// Writes a consistent snapshot to `sink`; the hub may keep running. A backup that includes the
    /// keys grants the hub's authority to its owner.
    ///
    /// # Errors
    /// [`DumpError`]
    pub async fn back_up(&self, sink: Sink, with_keys: bool) -> Result<Tallies, DumpError> {
        let mut files = dump::Files::new();
        for name in ALL_KEYS.into_iter().filter(|_| with_keys) {
            if let Some(text) = read_key(&self.data_dir, name)? {
                files.insert(name.to_owned(), text.into());
            }
        }
        dump::write(&self.place(), files, sink, Sink::finish).await
    }

    /// Replaces all data with a backup. No hub may run; for a shared database, none of its hubs.
    ///
    /// # Errors
    /// [`DumpError::NotEmpty`] if data exists and `overwrite` is not set, [`DumpError::Unreadable`] if
    /// the backup is damaged, [`DumpError::Failed`] if a hub runs or the data cannot be written.
    /// After an error nothing has changed, and no file is left behind.
    ///
    /// Identities and API tokens of the backup are void until an admin confirms them, unless `access` keeps them. Nothing is
    /// delivered before that confirmation.
    pub async fn restore(
        &self,
        source: Box<dyn BufRead + Send>,
        overwrite: bool,
        access: RestoredAccess,
        deliveries: RestoredDeliveries,
    ) -> Result<Tallies, DumpError> {
        let place = self.place();
        let folder = Leftovers::folder(&self.data_dir);
        let dir = DataDir::open(&self.data_dir)?;
        // From here on the lock keeps hubs from writing these files.
        let mut leftovers = Leftovers::files(&dir, &place);
        leftovers.then(folder);
        let there = KEYS.iter().find(|name| dir.join(name).exists());
        if let (Some(name), false) = (there, overwrite) {
            let path = dir.join(name);
            return Err(DumpError::NotEmpty(format!("{} is there", path.display())));
        }
        let stage = Stage::new(&dir);
        let staged = stage.clone();
        let marker = dir.join(RESTORING);
        let steps = RestoreSteps::of(access, deliveries);
        if !steps.is_empty() {
            std::fs::write(&marker, steps.to_text()).map_err(|error| unusable(&marker, &error))?;
        }
        let tallies = dump::read(&place, source, overwrite, Box::new(move |it| stage.put(it)));
        let tallies = match tallies.await {
            Ok(tallies) => tallies,
            Err(error) => {
                // Nothing was replaced.
                let _ = std::fs::remove_file(&marker);
                return Err(error);
            }
        };
        staged.commit()?;
        leftovers.keep();
        if !steps.is_empty() {
            let _claim = Claim::of(&place)?;
            let clock = Clock::system();
            let store = Store::open_as_it_is(&place, clock.clone()).await?;
            let begun = finish_restore(&dir, &store, clock.now()).await;
            store.close().await;
            begun?;
        }
        Ok(tallies)
    }

    /// Creates an access token without one: through the hub running in this folder, else directly
    /// in the store. For operators on the hub's machine without a valid token.
    ///
    /// # Errors
    /// `FL-4103` if the data cannot be used or belongs to another user, and the errors of creating
    /// a token.
    pub async fn create_token(&self, asked: CreateToken) -> Result<CreatedToken, Failure> {
        if let Some(created) = local::request_token(&self.data_dir, &asked).await? {
            return Ok(created);
        }
        let place = self.place();
        // Hubs on PostgreSQL pick up writes of other programs. A file belongs to one hub.
        let _alone = match &place {
            Place::Postgres(_) => None,
            Place::File(_) => {
                self.is_ours()?;
                let dir = DataDir::open(&self.data_dir).map_err(silent_hub)?;
                Some((dir, Claim::of(&place).map_err(silent_hub)?))
            }
        };
        let clock = Clock::system();
        let store = Store::open_as_it_is(&place, clock.clone()).await?;
        let created = mint(&store, clock.now(), Actor::Hub, asked).await;
        store.close().await;
        Ok(created?)
    }

    /// Store files created by root cannot be opened by the hub.
    fn is_ours(&self) -> Result<(), Failure> {
        let about = std::fs::metadata(&self.data_dir);
        let owner = about.map_err(|error| {
            unusable(&self.data_dir, &error).next("Name the hub's folder with `--data`.")
        })?;
        let (owner, me) = (owner.uid(), rustix::process::geteuid().as_raw());
        if owner == me {
            return Ok(());
        }
        let folder = self.data_dir.display();
        let cause = format!("{folder} belongs to user {owner}, and this is user {me}");
        let next = format!("Run the command as that user: `sudo -u '#{owner}' fairlead ...`.");
        Err(Failure::with_cause(Code::DataDir, cause).next(next))
    }

    /// Checks the store; one sentence per defect. The hub may keep running.
    ///
    /// # Errors
    /// `FL-4103` if the store cannot be read or is of another version.
    pub async fn check(&self) -> Result<Vec<String>, Failure> {
        let place = self.place();
        let store = Store::open_as_it_is(&place, Clock::system()).await?;
        let wrong = store.check().await;
        store.close().await;
        wrong.map_err(|error| unusable_store(&place, &error))
    }
}

/// Steps after a restore has replaced the store, as the marker file names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RestoreSteps {
    begin_epoch: bool,
    deliver_again: bool,
}

impl RestoreSteps {
    const KEEP_ACCESS: &str = "keep-access";
    const DELIVER_AGAIN: &str = "deliver-again";

    fn of(access: RestoredAccess, deliveries: RestoredDeliveries) -> Self {
        RestoreSteps {
            begin_epoch: access == RestoredAccess::AwaitsConfirmation,
            deliver_again: deliveries == RestoredDeliveries::Again,
        }
    }

    const fn is_empty(self) -> bool {
        !self.begin_epoch && !self.deliver_again
    }

    /// An empty text begins an epoch and does nothing else.
    fn read(text: &str) -> Self {
        let has = |word: &str| text.lines().any(|it| it == word);
        RestoreSteps {
            begin_epoch: !has(Self::KEEP_ACCESS),
            deliver_again: has(Self::DELIVER_AGAIN),
        }
    }

    fn to_text(self) -> String {
        let words = [
            (!self.begin_epoch).then_some(Self::KEEP_ACCESS),
            self.deliver_again.then_some(Self::DELIVER_AGAIN),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}

/// Completes a restore that has replaced the store. A restore that was killed before is completed by the next start of the
/// hub.
///
/// # Errors
/// `FL-5102`, `FL-4103`
pub(crate) async fn finish_restore(
    dir: &DataDir,
    store: &Store,
    now: OffsetDateTime,
) -> Result<(), Failure> {
    let marker = dir.join(RESTORING);
    let text = match std::fs::read_to_string(&marker) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(&marker, &error)),
    };
    let steps = RestoreSteps::read(&text);
    if steps.begin_epoch {
        epoch::begin(store, now).await?;
    }
    if steps.deliver_again {
        epoch::deliver_again(store, now).await?;
    }
    std::fs::remove_file(&marker).map_err(|error| unusable(&marker, &error))
}

/// Next step for a hub that runs without a reachable socket.
fn silent_hub(failure: Failure) -> Failure {
    failure.next("Run the command as the hub's user or as root where its `hub.sock` is, or stop the hub first.")
}

fn read_key(dir: &Path, name: &str) -> Result<Option<String>, Failure> {
    let path = dir.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&path, &error)),
    }
}
