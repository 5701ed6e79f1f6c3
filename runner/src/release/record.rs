//! The record of one revision: JSON, packed with gzip, twice in base64 as the Secret holds it.

use std::io::{Read, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::revision::{ReleaseStatus, Revision};

/// Largest record unpacked. A Secret has 1 MiB, and a chart of repeated lines packs well.
const MAX_RECORD_BYTES: u64 = 64 << 20;
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Error of reading or writing a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The Secret has no record.
    #[error("Secret has no field release")]
    Missing,
    /// The record is not in Helm's encoding.
    #[error("record of Helm is not base64 of gzip")]
    Encoding,
    /// The record is too large.
    #[error("record of Helm has more than 64 MiB")]
    TooLarge,
    /// The record has another form than Helm 4 writes.
    #[error("record of Helm has no {0}")]
    Form(&'static str),
    /// The record is not valid JSON.
    #[error("record of Helm is not JSON")]
    Json(#[from] serde_json::Error),
    /// The manifest in the record is not valid YAML.
    #[error("manifest in the record of Helm is not YAML: {0}")]
    Manifest(String),
    /// The revision is not pending, so it is not marked.
    #[error("revision of Helm is not pending")]
    NotPending,
}

/// Object of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Group and version, like `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace in the manifest; Helm adds the release's namespace to objects without one.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// Record of one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Record(Value);

impl Record {
    /// Reads the record of a Secret, as the API server returns it.
    ///
    /// # Errors
    /// The record is missing, too large, or in another form.
    pub fn of_secret(secret: &Value) -> Result<Self, RecordError> {
        let data = secret.get("data").and_then(|data| data.get("release"));
        Self::decode(data.and_then(Value::as_str).ok_or(RecordError::Missing)?)
    }

    /// Decodes the field `data.release` of a Secret.
    ///
    /// # Errors
    /// The record is too large, or in another form.
    pub fn decode(data: &str) -> Result<Self, RecordError> {
        let decode = |text: &[u8]| STANDARD.decode(text).map_err(|_| RecordError::Encoding);
        let packed = decode(&decode(data.as_bytes())?)?;
        let json = if packed.starts_with(&GZIP_MAGIC) {
            let mut json = Vec::new();
            let mut reader = GzDecoder::new(&packed[..]).take(MAX_RECORD_BYTES + 1);
            reader
                .read_to_end(&mut json)
                .map_err(|_| RecordError::Encoding)?;
            json
        } else {
            // Very old records are not packed; Helm reads them, too.
            packed
        };
        if json.len() as u64 > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge);
        }
        let record = Record(serde_json::from_slice(&json)?);
        record.number()?;
        Ok(record)
    }

    #[cfg(test)]
    pub(super) fn json_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// Encodes the record for the field `data.release` of a Secret.
    ///
    /// # Errors
    /// The record cannot be packed.
    pub fn encode(&self) -> Result<String, RecordError> {
        let mut writer = GzEncoder::new(Vec::new(), Compression::best());
        let packed = writer.write_all(&serde_json::to_vec(&self.0)?);
        let packed = packed.and_then(|()| writer.finish());
        let packed = packed.map_err(|_| RecordError::Encoding)?;
        Ok(STANDARD.encode(STANDARD.encode(packed)))
    }

    /// Number of the revision.
    ///
    /// # Errors
    /// The record has none.
    pub fn number(&self) -> Result<u32, RecordError> {
        let number = self.0.get("version").and_then(Value::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.ok_or(RecordError::Form("version"))
    }

    /// Status of the revision.
    #[must_use]
    pub fn status(&self) -> ReleaseStatus {
        let status = self.0.pointer("/info/status").and_then(Value::as_str);
        ReleaseStatus::parse(status.unwrap_or_default())
    }

    /// Helm's sentence about the last operation.
    #[must_use]
    pub fn description(&self) -> &str {
        let text = self.0.pointer("/info/description").and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// Values that the operation was given, without those of the chart.
    #[must_use]
    pub fn values(&self) -> &Value {
        self.0.get("config").unwrap_or(&Value::Null)
    }

    /// Namespace of the release.
    #[must_use]
    pub fn namespace(&self) -> &str {
        let namespace = self.0.get("namespace").and_then(Value::as_str);
        namespace.unwrap_or_default()
    }

    /// Hook that failed in the last operation, like `Job shop/migrate`: kind and name.
    #[must_use]
    pub fn failed_hook(&self) -> Option<(&str, &str)> {
        let hooks = self.0.get("hooks").and_then(Value::as_array)?;
        let has_failed = |hook: &&Value| {
            let phase = hook.pointer("/last_run/phase").and_then(Value::as_str);
            phase == Some("Failed")
        };
        let hook = hooks.iter().find(has_failed)?;
        Some((hook.get("kind")?.as_str()?, hook.get("name")?.as_str()?))
    }

    /// Revision that a rollback returned to.
    #[must_use]
    pub fn rolled_back_to(&self) -> Option<u32> {
        let to = self.0.pointer("/info/rollback_revision")?.as_u64()?;
        u32::try_from(to).ok().filter(|to| *to > 0)
    }

    /// Adds the facts of the record that metadata does not hold.
    #[must_use]
    pub fn complete(&self, mut revision: Revision) -> Revision {
        revision.rolled_back_to = self.rolled_back_to();
        revision
    }

    /// Manifest of the release, as Helm rendered it, without hooks.
    #[must_use]
    pub fn manifest(&self) -> &str {
        self.0
            .get("manifest")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Objects of the manifest, in its order.
    ///
    /// # Errors
    /// The manifest is not valid YAML.
    pub fn objects(&self) -> Result<Vec<ObjectRef>, RecordError> {
        objects(self.manifest())
    }

    /// Objects of the hooks. Most of them exist while their hook runs only.
    ///
    /// # Errors
    /// A hook's manifest is not valid YAML.
    pub fn hook_objects(&self) -> Result<Vec<ObjectRef>, RecordError> {
        let hooks = self.0.get("hooks").and_then(Value::as_array);
        let manifests = hooks
            .into_iter()
            .flatten()
            .filter_map(|hook| hook.get("manifest")?.as_str());
        let mut all = Vec::new();
        for manifest in manifests {
            all.extend(objects(manifest)?);
        }
        Ok(all)
    }

    /// Merge patch of the Secret that marks a pending revision as failed, so that Helm accepts the next operation.
    ///
    /// The patch holds the resource version, so it fails if anybody has written the Secret since. `now` is Unix time in seconds.
    ///
    /// # Errors
    /// The revision is not pending, or the record has another form than Helm 4 writes.
    pub fn unlock_patch(
        &self,
        revision: &Revision,
        reason: &str,
        now: u64,
    ) -> Result<Value, RecordError> {
        if !self.status().is_pending() || self.number()? != revision.number {
            return Err(RecordError::NotPending);
        }
        let mut failed = self.clone();
        let info = failed.0.get_mut("info").and_then(Value::as_object_mut);
        let info = info.ok_or(RecordError::Form("info"))?;
        info.insert("status".into(), json!("failed"));
        info.insert("description".into(), json!(reason));
        Ok(json!({
            "metadata": {
                "resourceVersion": revision.resource_version,
                "labels": {"status": "failed", "modifiedAt": now.to_string()},
            },
            "data": {"release": failed.encode()?},
        }))
    }

    /// Merge patch of the Secret that replaces the manifest of a revision. A rollback to it applies the new one.
    ///
    /// The patch holds the resource version, so it fails if anybody has written the Secret since.
    ///
    /// # Errors
    /// The record is of another revision, or has another form than Helm 4 writes.
    pub fn manifest_patch(
        &self,
        revision: &Revision,
        manifest: &str,
    ) -> Result<Value, RecordError> {
        if self.number()? != revision.number {
            return Err(RecordError::Form("version of its Secret"));
        }
        let mut changed = self.clone();
        let manifest_field = changed.0.get_mut("manifest");
        *manifest_field.ok_or(RecordError::Form("manifest"))? = json!(manifest);
        Ok(json!({
            "metadata": {"resourceVersion": revision.resource_version},
            "data": {"release": changed.encode()?},
        }))
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    metadata: HeadMetadata,
}

#[derive(Deserialize)]
struct HeadMetadata {
    name: String,
    namespace: Option<String>,
}

fn objects(manifest: &str) -> Result<Vec<ObjectRef>, RecordError> {
    let heads: Vec<Option<Head>> = serde_saphyr::from_multiple(manifest)
        .map_err(|error| RecordError::Manifest(error.to_string()))?;
    let object = |head: Head| ObjectRef {
        api_version: head.api_version,
        kind: head.kind,
        namespace: head.metadata.namespace,
        name: head.metadata.name,
    };
    Ok(heads.into_iter().flatten().map(object).collect())
}
