//! One poll: the reference, a new commit, its folders, and their bundles.

use std::{path::PathBuf, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use fairlead_api::{BundleId, Code, delivery::BundleFields, hex};
use fairlead_store::{Actor, Draft, StoreError, View, millis, model::BundleSource, whole_millis};
use tracing::{info, warn};

use super::{
    Sources,
    access::GitAccess,
    failure::SourceFailure,
    fetch::CachedRepository,
    folders::{FolderBundle, FolderFile, ReadFolder, without_collisions},
    remote::{RemoteTarget, resolve},
    schedule::{PollKey, PollOutcome},
    state::{PollResult, reason_of},
    tree::read_folder,
    write::{ReadCommit, StoredFolder, Written, bundles_of, write},
};
use crate::{charts::FetchedChart, generations::GenerationOptions};

/// Content of a commit and its refused folders.
#[derive(Default)]
struct Read {
    folders: Vec<FolderBundle>,
    refused: Vec<String>,
    failures: Vec<SourceFailure>,
}

impl Sources {
    /// Polls a reference for all its sources. Returns the worst outcome.
    pub(super) async fn poll(self: &Arc<Self>, key: &PollKey) -> PollOutcome {
        let sources = self.sources_of(key);
        let Some(first) = sources.first() else {
            return PollOutcome::Succeeded;
        };
        let target = self.resolve(first).await;
        let mut worst = PollOutcome::Succeeded;
        for source in &sources {
            let outcome = match &target {
                Ok(target) => self.process(source, target).await,
                Err(failure) => Err(failure.clone()),
            };
            let failures = outcome.unwrap_or_else(|failure| {
                worst = worst.max(match failure.is_overload() {
                    true => PollOutcome::Overloaded,
                    false => PollOutcome::Failed,
                });
                vec![failure]
            });
            for failure in &failures {
                warn!(source = %source.id, code = %failure.code, error = failure.cause, "source not polled");
            }
            self.record(source, &failures).await;
        }
        worst
    }

    /// Writes the result of a poll into the document, unless it is there already.
    async fn record(&self, polled: &BundleSource, failures: &[SourceFailure]) {
        let result = PollResult {
            at: whole_millis(self.parts.clock.now()),
            reason: reason_of(failures),
            requested: polled.requested,
        };
        let polled = polled.clone();
        let after = move |view: &View| {
            let known = &view.source(&polled.id)?.value;
            // A person has changed the repository meanwhile: its own poll follows.
            let is_polled = known.git == polled.git;
            let after = is_polled.then(|| result.apply(known, known.commit.clone()))?;
            (after != *known).then_some(after)
        };
        let store = &self.parts.store;
        if after(&store.view()).is_none() {
            return;
        }
        let decide = move |draft: &mut Draft| match after(draft) {
            Some(source) => draft.put_source(source),
            None => Ok(()),
        };
        let recorded = store.change::<_, StoreError, _>(Actor::Hub, decide).await;
        if let Err(error) = recorded {
            warn!(%error, "result of a poll not recorded");
        }
    }

    fn sources_of(&self, key: &PollKey) -> Vec<BundleSource> {
        let view = self.parts.store.view();
        let sources = view.sources().map(|it| &it.value);
        let sources = sources.filter(|it| {
            let is_polled = !it.suspended;
            is_polled && PollKey::of(&it.tenant, &it.git) == *key
        });
        sources.cloned().collect()
    }

    async fn resolve(&self, source: &BundleSource) -> Result<RemoteTarget, SourceFailure> {
        let access = GitAccess::of(&source.git, &source.tenant, &self.credentials)?;
        let reference = source.git.reference.parse();
        let reference = reference.map_err(|error: super::remote::ReferenceError| {
            SourceFailure::new(Code::NoSuchRef, error.to_string())
        })?;
        resolve(&self.git, &access, (&source.git.url, &reference)).await
    }

    /// Reads the commit for one source, unless its content was written before. Returns failures of single folders.
    async fn process(
        self: &Arc<Self>,
        source: &BundleSource,
        target: &RemoteTarget,
    ) -> Result<Vec<SourceFailure>, SourceFailure> {
        let done = (target.commit.clone(), options_of(source));
        let is_written = source.commit.as_ref() == Some(&target.commit);
        let known = self.processed.get(&source.id);
        if let Some(known) = known.filter(|it| is_written && it.done == done) {
            return Ok(known.failures);
        }
        let access = GitAccess::of(&source.git, &source.tenant, &self.credentials)?;
        let repository = CachedRepository::at(self.cache_of(source), self.max_fetch_bytes);
        let url = source.git.url.as_str();
        let commit = repository.fetch(&self.git, &access, (url, target)).await?;
        if let Some(signers) = &source.git.verify {
            let verify = repository.verify(&self.git, &access, (&commit, signers));
            verify.await?;
        }
        let read = self.read(source, (&repository, &commit)).await?;
        let (failures, is_outdated) = self.write(source, &commit, read).await?;
        // A chart may be there at the next poll.
        let is_whole = failures.iter().all(|it| it.code != Code::ChartUnavailable);
        if is_whole && !is_outdated {
            let failures = failures.clone();
            let done = (commit, done.1);
            self.processed.set(&source.id, Processed { done, failures });
        }
        Ok(failures)
    }

    /// Folder of the cache: sources without the same access never share one.
    fn cache_of(&self, source: &BundleSource) -> PathBuf {
        let key = PollKey::of(&source.tenant, &source.git);
        let name = format!("{key:?}");
        let name = digest(&SHA256, name.as_bytes());
        let name: String = hex::encode(name.as_ref()).chars().take(32).collect();
        self.cache.join("git").join(name)
    }

    async fn read(
        self: &Arc<Self>,
        source: &BundleSource,
        (repository, commit): (&CachedRepository, &str),
    ) -> Result<Read, SourceFailure> {
        let mut read = Read::default();
        for path in &source.git.paths {
            let folder = match read_folder(&self.git, repository, (commit, path)).await {
                Ok(Some(folder)) => ReadFolder::of(&source.id, path, folder),
                Ok(None) => continue,
                // Only a refused folder leaves the others as they are.
                Err(failure) if failure.code == Code::BadSourceFolder => Err(failure),
                Err(failure) => return Err(failure),
            };
            let packed = match folder {
                Ok(folder) => self.pack(folder).await,
                Err(failure) => Err(failure),
            };
            match packed {
                Ok(folder) => read.folders.push(folder),
                Err(failure) => {
                    read.refused.push(path.clone());
                    read.failures.push(failure);
                }
            }
        }
        let all: Vec<String> = read.folders.iter().map(|it| it.path.clone()).collect();
        let (folders, collisions) = without_collisions(read.folders);
        let is_left_out = |path: &String| !folders.iter().any(|it| it.path == *path);
        read.refused.extend(all.into_iter().filter(is_left_out));
        read.failures.extend(collisions);
        Ok(Read { folders, ..read })
    }

    async fn pack(&self, folder: ReadFolder) -> Result<FolderBundle, SourceFailure> {
        let (chart, turn) = match &folder.fields.chart {
            Some(chart) if folder.needs_chart() => {
                let fetched = self.parts.charts.fetch(chart).await;
                let unavailable = |cause| SourceFailure::new(Code::ChartUnavailable, cause);
                let FetchedChart { folder, turn } = fetched.map_err(unavailable)?;
                (Some(folder), Some(turn))
            }
            _ => (None, None),
        };
        let path = folder.path.clone();
        let packed = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            folder.pack(chart)
        })
        .await;
        packed.unwrap_or_else(|_| Err(SourceFailure::folder(&path, "it cannot be packed")))
    }

    /// Stores the contents, then writes all bundles of the commit in one change.
    async fn write(
        &self,
        source: &BundleSource,
        commit: &str,
        read: Read,
    ) -> Result<(Vec<SourceFailure>, bool), SourceFailure> {
        let at = self.parts.clock.now();
        let mut folders = Vec::with_capacity(read.folders.len());
        for folder in read.folders {
            folders.extend(self.store_folder(source, folder).await?);
        }
        let commit = ReadCommit {
            source: source.id.clone(),
            commit: commit.to_owned(),
            folders,
            refused: read.refused,
            failures: read.failures,
            at: whole_millis(at),
            requested: source.requested,
        };
        let decide = move |draft: &mut Draft| write(draft, &commit);
        let written = self
            .parts
            .store
            .change::<_, StoreError, _>(Actor::Hub, decide);
        let written: Written = written.await?.value.unwrap_or_default();
        let (released, orphaned) = (&written.released, &written.orphaned);
        if !released.is_empty() || !orphaned.is_empty() {
            let removals = written.removals;
            info!(source = %source.id, ?released, ?orphaned, removals, "commit of a source accepted");
        }
        Ok((written.failures, written.is_outdated))
    }

    /// Stores the content of a folder, and the options for each of its bundles.
    async fn store_folder(
        &self,
        source: &BundleSource,
        folder: FolderBundle,
    ) -> Result<Vec<StoredFolder>, SourceFailure> {
        let now = millis(self.parts.clock.now());
        let FolderBundle {
            artifact, options, ..
        } = &folder;
        let put = self.parts.contents.put(&artifact.id, &artifact.packed, now);
        put.await?;
        let view = self.parts.store.view();
        let known = bundles_of(&view, &source.id, &folder.path);
        let mut bundles: Vec<(BundleId, Option<BundleFields>)> = match folder.file {
            FolderFile::Named => Vec::new(),
            FolderFile::Missing | FolderFile::Unnamed => known
                .map(|it| (it.id.clone(), Some(it.fields.clone())))
                .collect(),
        };
        let has_options = folder.file != FolderFile::Missing;
        if has_options || bundles.is_empty() {
            bundles.retain(|(id, _)| *id != folder.bundle);
            bundles.push((folder.bundle.clone(), None));
        }
        let mut stored = Vec::with_capacity(bundles.len());
        for (bundle, own) in bundles {
            let keeps_fields = own.is_some();
            let options = GenerationOptions {
                fields: own.unwrap_or_else(|| options.fields.clone()),
                ..options.clone()
            };
            let id = self.parts.generations.store_options(&options, now);
            stored.push(StoredFolder {
                path: folder.path.clone(),
                bundle,
                keeps_fields,
                artifact: artifact.id.clone(),
                options: id.await?,
                fields: options.fields,
            });
        }
        Ok(stored)
    }
}

/// Options of a source that decide about the content of its bundles. A request reads the commit again.
pub(super) fn options_of(source: &BundleSource) -> String {
    let git = &source.git;
    let options = (&git.paths, &git.verify, source.prune, source.requested);
    format!("{options:?}")
}

/// Last commit that this hub has read for a source.
#[derive(Debug, Clone)]
pub(super) struct Processed {
    done: (String, String),
    failures: Vec<SourceFailure>,
}
