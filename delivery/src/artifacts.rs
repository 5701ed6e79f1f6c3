//! Content of bundles: unpacked and checked once, stored by digest, and known by its facts.
//!
//! An upload is noted for its tenant, by a content whose name is made of tenant and artifact. The note is collected with
//! all contents that nothing uses.

mod facts;
mod pieces;
mod route;

use std::{io::Read, sync::Arc, time::Duration};

use fairlead_api::{
    Code, Failure, TenantId,
    delivery::{ArtifactId, BundleFields, Chart, UploadedArtifact},
};
use fairlead_bundle::{
    content_id,
    fields::{FILE_NAME, check_fields, parse_file},
    folder::{Artifact, FileEntry, Folder, FolderError, MAX_PACKED_BYTES, MAX_UNPACKED_BYTES},
};
use fairlead_delivery_store::ContentStore;
use fairlead_registry::{RegistryError, sees_tenant};
use fairlead_seam::{Caller, FairPool, Taken};
use fairlead_store::{StoreError, View};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use tracing::error;

use self::facts::FactsCache;
pub(crate) use self::{facts::ArtifactFacts, route::routes};
use crate::charts::FetchedChart;

/// Uploads that are unpacked at the same time.
const MAX_UPLOADS: usize = 64;
/// Time to wait for one of them to end.
const UPLOAD_WAIT: Duration = Duration::from_secs(20);
/// Memory of all unpacked folders in bytes. One tenant gets at most half of it.
const UNPACKED_POOL_BYTES: usize = 256 << 20;
/// Limit of distinct variables of one folder: each is stored with its generation.
const MAX_VARIABLES: usize = 10_000;
/// Limit of an archive on its way, before or after compression: files, and headers and paddings of a tar.
pub(crate) const MAX_ARCHIVE_BYTES: u64 = MAX_UNPACKED_BYTES + (40 << 20);

/// Stored contents of bundles. Clones share them.
#[derive(Clone)]
pub(crate) struct Artifacts {
    contents: ContentStore,
    facts: Arc<FactsCache>,
    uploads: Arc<Semaphore>,
    memory: FairPool<String>,
}

/// A folder that was read and packed, with its memory.
pub(crate) struct PackedFolder {
    artifact: Artifact,
    facts: ArtifactFacts,
    fields: Option<BundleFields>,
    _memory: Vec<Taken>,
}

impl PackedFolder {
    /// Chart of a repository that takes the place of the folder.
    fn chart_to_fetch(&self) -> Option<&Chart> {
        let chart = self.fields.as_ref()?.chart.as_ref();
        chart.filter(|_| !self.facts.has_chart)
    }

    /// Packs the fetched chart in the place of the folder.
    ///
    /// # Errors
    /// `FL-6102`, `FL-6103`
    fn replaced_by(self, chart: FetchedChart) -> Result<Self, Failure> {
        let facts = ArtifactFacts::of(&chart.folder).map_err(refused)?;
        let artifact = chart.folder.pack().map_err(refused)?;
        let mut fields = self.fields;
        if let Some(fields) = &mut fields {
            // The chart is the content now.
            fields.chart = None;
            let checked = check_fields(fields, facts.has_chart);
            checked.map_err(|error| bad_file(error.to_string()))?;
        }
        Ok(PackedFolder {
            artifact,
            facts,
            fields,
            _memory: self._memory,
        })
    }
}

impl Artifacts {
    /// Artifacts over stored contents.
    pub(crate) fn new(contents: ContentStore) -> Self {
        Artifacts {
            contents,
            facts: Arc::default(),
            uploads: Arc::new(Semaphore::new(MAX_UPLOADS)),
            memory: FairPool::new(UNPACKED_POOL_BYTES),
        }
    }

    /// Stores a packed folder; `now` in milliseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn store(
        &self,
        folder: PackedFolder,
        now: i64,
    ) -> Result<UploadedArtifact, StoreError> {
        let PackedFolder {
            artifact,
            facts,
            fields,
            ..
        } = folder;
        self.contents
            .put(&artifact.id, &artifact.packed, now)
            .await?;
        let shown = UploadedArtifact {
            id: artifact.id,
            files: artifact.files,
            packed_bytes: artifact.packed.len() as u64,
            unpacked_bytes: artifact.unpacked_bytes,
            chart: facts.has_chart,
            fields,
        };
        self.facts.insert(&shown.id, Arc::new(facts));
        Ok(shown)
    }

    /// Notes an upload: callers of the tenant may use the artifact for an hour; `None` is all tenants.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn note_upload(
        &self,
        tenant: Option<&TenantId>,
        artifact: &ArtifactId,
        now: i64,
    ) -> Result<(), StoreError> {
        let note = upload_note(tenant, artifact);
        self.contents
            .put(&content_id(note.as_bytes()), note.as_bytes(), now)
            .await
    }

    /// Records the use of an artifact for a bundle of a tenant; `now` in milliseconds since 1970.
    ///
    /// # Errors
    /// `FL-6101` unless the caller or its tenant has uploaded it, or sees a bundle with it.
    pub(crate) async fn take_up(
        &self,
        (view, caller): (&View, &Caller),
        tenant: &TenantId,
        id: &ArtifactId,
        now: i64,
    ) -> Result<(), RegistryError> {
        let missing = || Failure::because(Code::NoSuchArtifact, id);
        if !self.may_use(view, caller, tenant, id).await? {
            return Err(missing().into());
        }
        match self.contents.touch(id, now).await? {
            true => Ok(()),
            false => Err(missing().into()),
        }
    }

    async fn may_use(
        &self,
        view: &View,
        caller: &Caller,
        tenant: &TenantId,
        id: &ArtifactId,
    ) -> Result<bool, StoreError> {
        let bundles = view.bundles().map(|it| &it.value);
        let mut bundles = bundles.filter(|it| sees_tenant(view, caller, &it.tenant));
        if bundles.any(|it| it.generations.iter().any(|it| it.artifact == *id)) {
            return Ok(true);
        }
        let sources = view.sources().map(|it| &it.value);
        let mut sources = sources.filter(|it| sees_tenant(view, caller, &it.tenant));
        if sources.any(|it| it.artifacts.iter().any(|it| it.artifact == *id)) {
            return Ok(true);
        }
        let lineage = view.lineage(tenant);
        let visible = lineage.filter(|it| sees_tenant(view, caller, it));
        let of_all = caller.is_unlimited().then_some(None);
        for uploader in visible.map(Some).chain(of_all) {
            let note = upload_note(uploader, id);
            let note = self.contents.size(&content_id(note.as_bytes())).await?;
            if note.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Facts of a stored artifact.
    ///
    /// # Errors
    /// `FL-6104` for a damaged one, `FL-6101` for a missing one.
    pub(crate) async fn facts(&self, id: &ArtifactId) -> Result<Arc<ArtifactFacts>, RegistryError> {
        if let Some(known) = self.facts.get(id) {
            return Ok(known);
        }
        let packed = self.contents.get(id).await?;
        let packed = packed.ok_or_else(|| Failure::because(Code::NoSuchArtifact, id))?;
        let name = id.clone();
        let _turn = self.turn().await?;
        let read = spawn_blocking(move || {
            let folder = Folder::from_artifact(packed.as_ref(), &name)?;
            ArtifactFacts::of(&folder)
        });
        let facts = read.await.map_err(RegistryError::internal)?;
        let facts = Arc::new(facts.map_err(|error| {
            error!(artifact = %id, %error, "stored content damaged");
            Failure::because(Code::WrongDigest, error)
        })?);
        self.facts.insert(id, Arc::clone(&facts));
        Ok(facts)
    }

    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Failure> {
        let turn = timeout(UPLOAD_WAIT, self.uploads.acquire()).await;
        let turn = turn.ok().and_then(Result::ok);
        turn.ok_or_else(|| Code::TooManyTransfers.into())
    }

    /// Packs files that the hub made itself, with a known bound of their size.
    ///
    /// # Errors
    /// `FL-6102`
    pub(crate) fn pack_files(&self, files: Vec<FileEntry>) -> Result<PackedFolder, Failure> {
        let folder = Folder::from_files(files).map_err(refused)?;
        Ok(PackedFolder {
            facts: ArtifactFacts::of(&folder).map_err(refused)?,
            artifact: folder.pack().map_err(refused)?,
            fields: None,
            _memory: Vec::new(),
        })
    }

    /// Reads an archive, and packs its canonical form. `sender` names the share of memory.
    ///
    /// # Errors
    /// `FL-6102`, `FL-6103`, `FL-1310`
    pub(crate) fn pack(&self, archive: impl Read, sender: &str) -> Result<PackedFolder, Failure> {
        let share = self.memory.share(sender.to_owned());
        let mut memory = Vec::new();
        let mut budget = |bytes: u64| {
            let taken = usize::try_from(bytes).ok().and_then(|it| share.take(it));
            let has_taken = taken.is_some();
            memory.extend(taken);
            has_taken
        };
        let folder = match budget(MAX_PACKED_BYTES) {
            true => Folder::from_archive_within(archive, &mut budget),
            false => Err(FolderError::Memory),
        };
        let folder = folder.map_err(refused)?;
        let facts = ArtifactFacts::of(&folder).map_err(refused)?;
        let fields = fields_of(&folder, facts.has_chart)?;
        let artifact = folder.pack().map_err(refused)?;
        Ok(PackedFolder {
            artifact,
            facts,
            fields,
            _memory: memory,
        })
    }
}

/// Text whose digest names the note of an upload.
fn upload_note(tenant: Option<&TenantId>, artifact: &ArtifactId) -> String {
    let tenant = tenant.map_or("all tenants", |it| it.as_str());
    format!("upload of {artifact} for {tenant}")
}

fn refused(error: FolderError) -> Failure {
    match error {
        FolderError::Memory => Code::BodyMemoryFull.into(),
        other => Failure::because(Code::ArchiveRefused, fairlead_api::error_chain(&other)),
    }
}

/// Options in `fairlead.yaml` of a folder.
fn fields_of(folder: &Folder, has_chart: bool) -> Result<Option<BundleFields>, Failure> {
    let Some(file) = folder.get(FILE_NAME) else {
        return Ok(None);
    };
    let text = str::from_utf8(file);
    let text = text.map_err(|_| bad_file(format!("{FILE_NAME} is no UTF-8")))?;
    let fields = parse_file(text, has_chart);
    fields
        .map(Some)
        .map_err(|error| bad_file(error.to_string()))
}

fn bad_file(cause: String) -> Failure {
    Failure::with_cause(Code::BadBundleFile, cause)
}

#[cfg(test)]
mod tests;
