//! What the platform operator does with a hub's data as a whole: back it up while the hub runs, put it back while it does
//! not, look whether it is whole.

mod sealed;

use std::{
    io::BufRead,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure};
use fairlead_certs::keyfile;
use secrecy::ExposeSecret;

use crate::{
    clock::Clock,
    control::STORE,
    data_dir::DataDir,
    keys::KEYS,
    store::{Place, Store, Tallies, dump},
};

pub use crate::store::dump::migrate;
pub use sealed::{Sink, opened};

/// A hub's data: its folder, and where its store is.
#[derive(Debug, Clone)]
pub struct HubData {
    pub data_dir: PathBuf,
    /// A file in `data_dir` where nothing is said.
    pub store: Option<Place>,
}

impl HubData {
    fn place(&self) -> Place {
        let file = || Place::File(self.data_dir.join(STORE));
        self.store.clone().unwrap_or_else(file)
    }

    /// Writes all of it to `sink`, as it is at this moment; the hub may go on. With the keys, whoever has the backup is
    /// the hub's authority.
    ///
    /// # Errors
    /// `FL-4103` if it cannot be read or is of another version, `FL-4112` if `sink` takes no more.
    pub async fn back_up(&self, sink: Sink, with_keys: bool) -> Result<Tallies, Failure> {
        let mut files = dump::Files::new();
        for name in KEYS.into_iter().filter(|_| with_keys) {
            if let Some(text) = read_key(&self.data_dir, name)? {
                files.insert(name.to_owned(), text.into());
            }
        }
        dump::write(&self.place(), files, sink).await
    }

    /// Puts a backup in the place of all that is there. The hub must not run; with a database of several hubs, none of
    /// them.
    ///
    /// # Errors
    /// `FL-4111` if something is there and `overwrite` was not said, `FL-4109` if the backup is damaged, `FL-4103` if the
    /// hub runs or its data cannot be written. The store has not changed then.
    pub async fn restore(
        &self,
        source: Box<dyn BufRead + Send>,
        overwrite: bool,
    ) -> Result<Tallies, Failure> {
        let dir = DataDir::open(&self.data_dir)?;
        let there = KEYS.iter().find(|name| dir.join(name).exists());
        if let (Some(name), false) = (there, overwrite) {
            let path = dir.join(name);
            let detail = format_args!("{} is there", path.display());
            return Err(Failure::because(Code::InUse, detail));
        }
        let (tallies, files) = dump::read(&self.place(), source, overwrite).await?;
        for name in KEYS {
            let Some(text) = files.get(name) else {
                continue;
            };
            let path = dir.join(name);
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(&path, &error)),
            }
            keyfile::create(&path, text.expose_secret())?;
        }
        Ok(tallies)
    }

    /// One sentence for each thing that is wrong with the store. The hub may go on.
    ///
    /// # Errors
    /// `FL-4103` if it cannot be read or is of another version.
    pub async fn check(&self) -> Result<Vec<String>, Failure> {
        let place = self.place();
        let store = Store::open_as_it_is(&place, Clock::system()).await?;
        let wrong = store.check().await;
        store.close().await;
        wrong.map_err(|error| Failure::because(Code::DataDir, format_args!("{place}: {error}")))
    }
}

fn read_key(dir: &Path, name: &str) -> Result<Option<String>, Failure> {
    let path = dir.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&path, &error)),
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(Code::DataDir, format_args!("{}: {error}", path.display()))
}
