//! Sources: Git repositories whose folders become bundles.
//!
//! The leading hub polls each repository, fetches a new commit, and writes a generation for each folder with other content.
//! A failure changes nothing: the last good content stays, and the source shows the reason.

mod access;
mod check;
mod failure;
mod fetch;
mod folders;
mod git;
mod hooks;
mod keeper;
mod poll;
mod remote;
mod routes;
mod schedule;
mod state;
mod tree;
mod write;

use std::{
    collections::BTreeSet,
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::SourceId;
use tokio::sync::Notify;

use self::{access::CredentialsFolder, git::Git, state::ProcessedCommits};
use crate::{parts::DeliveryParts, proxy::ProgramProxy};

pub(crate) use self::{hooks::hook_routes, routes::routes};

/// Settings of sources.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Folder for caches, in the data directory of the hub.
    pub cache: PathBuf,
    /// Folder with credentials: a folder for each tenant, and in it one file for each name.
    pub credentials: Option<PathBuf>,
    /// Program git.
    pub git: PathBuf,
    /// Program helm, for charts of repositories.
    pub helm: Option<PathBuf>,
    /// Limit of one fetch, in bytes.
    pub max_fetch_bytes: u64,
    /// Proxy of git and helm.
    pub proxy: ProgramProxy,
}

impl SourceSettings {
    /// Settings with the program git of the machine, and without credentials.
    #[must_use]
    pub fn of_data_dir(data: &std::path::Path) -> Self {
        SourceSettings {
            cache: data.join("sources"),
            credentials: None,
            git: PathBuf::from("git"),
            helm: None,
            max_fetch_bytes: fetch::MAX_FETCH_BYTES,
            proxy: ProgramProxy::default(),
        }
    }
}

/// All sources, and the means to read them.
pub(crate) struct Sources {
    pub(crate) parts: DeliveryParts,
    credentials: CredentialsFolder,
    cache: PathBuf,
    git: Git,
    max_fetch_bytes: u64,
    processed: ProcessedCommits,
    /// Sources whose webhook was called since the last write of requests.
    called: Mutex<BTreeSet<SourceId>>,
    hooked: Notify,
}

impl Sources {
    /// Sources of a store.
    pub(crate) fn new(parts: DeliveryParts, settings: SourceSettings) -> Arc<Self> {
        let home = settings.cache.join("home");
        Arc::new(Sources {
            parts,
            credentials: CredentialsFolder::new(settings.credentials),
            git: Git::new(settings.git, home, settings.proxy),
            max_fetch_bytes: settings.max_fetch_bytes,
            cache: settings.cache,
            processed: ProcessedCommits::default(),
            called: Mutex::default(),
            hooked: Notify::new(),
        })
    }

    /// Creates the folders of the cache.
    fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(self.cache.join("home"))
    }

    /// Notes a call of a webhook. Many calls become one request.
    fn note_call(&self, source: &SourceId) {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.insert(source.clone());
        drop(called);
        self.hooked.notify_one();
    }

    fn take_calls(&self) -> BTreeSet<SourceId> {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut called)
    }
}

#[cfg(test)]
mod tests;
