//! Packed content of a journal: specs and applied objects, by gzip.

use std::{io::Read, io::Write, sync::Arc};

use aws_lc_rs::digest;
use fairlead_api::{delivery::Spec, hex};
use fairlead_manifests::{ObjectKey, ObjectKind, drift::Baseline};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::AppliedObject;

/// Largest packed content, in all parts.
const MAX_PACKED_BYTES: usize = 8 * 1024 * 1024;
/// Largest unpacked content.
const MAX_UNPACKED_BYTES: u64 = 128 * 1024 * 1024;
/// Largest part in one Secret. The data of a Secret has 1 MiB at most.
pub(super) const MAX_PART_BYTES: usize = 960 * 1024;

/// Content that does not fit into a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("takes {bytes} bytes; at most {limit} fit")]
pub(crate) struct ContentTooLarge {
    pub(super) bytes: usize,
    pub(super) limit: usize,
}

/// Specs and applied objects.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalContent {
    /// Spec to apply.
    #[serde(with = "shared")]
    pub accepted: Option<Arc<Spec>>,
    /// Spec of the applied objects.
    #[serde(with = "shared")]
    pub applied: Option<Arc<Spec>>,
    /// Objects as they were applied.
    pub objects: Vec<StoredObject>,
}

/// An applied object. It stays in JSON, because a tree of values takes ten times the memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredObject {
    #[serde(with = "raw")]
    manifest: Arc<str>,
    /// State to compare with.
    #[serde(default, with = "shared", skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Arc<Baseline>>,
}

impl StoredObject {
    /// The object as it was applied.
    #[must_use]
    pub fn new(manifest: &Value, baseline: Option<Arc<Baseline>>) -> Self {
        Self {
            manifest: manifest.to_string().into(),
            baseline,
        }
    }

    /// Text of the object as it was applied.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.manifest
    }

    /// The object as it was applied.
    #[must_use]
    pub fn manifest(&self) -> Value {
        // The text was written from a value, or read as one.
        serde_json::from_str(&self.manifest).unwrap_or_default()
    }

    /// The object with its identity. None for an object without one.
    #[must_use]
    pub fn to_applied(&self) -> Option<AppliedObject> {
        let manifest = self.manifest();
        Some(AppliedObject {
            key: ObjectKey::of(&manifest)?,
            kind: ObjectKind::of(&manifest)?,
            manifest,
            baseline: self.baseline.clone(),
        })
    }
}

/// Place of packed content: inline, or in Secrets of one of two slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContentParts {
    /// `a` or `b`. The other slot is free, so that a new content never overwrites the current one.
    pub(super) slot: char,
    /// Number of Secrets; 0 for inline content.
    pub(super) count: usize,
    /// SHA-256 of the packed content.
    pub(super) digest: String,
}

pub(super) fn digest_of(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

impl JournalContent {
    pub(super) fn pack(&self) -> Result<Vec<u8>, ContentTooLarge> {
        self.pack_within(MAX_PACKED_BYTES)
    }

    /// Packs the content, if it then has at most `limit` bytes.
    pub(super) fn pack_within(&self, limit: usize) -> Result<Vec<u8>, ContentTooLarge> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // Writes to memory cannot fail, and all keys are texts.
        let _ = serde_json::to_writer(&mut encoder, self);
        let _ = encoder.flush();
        let packed = encoder.finish().unwrap_or_default();
        let bytes = packed.len();
        if bytes > limit {
            return Err(ContentTooLarge { bytes, limit });
        }
        Ok(packed)
    }

    pub(super) fn unpack(packed: &[u8]) -> Result<Self, String> {
        let decoder = GzDecoder::new(packed).take(MAX_UNPACKED_BYTES);
        serde_json::from_reader(decoder).map_err(|error| error.to_string())
    }
}

/// Shared values in JSON.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Arc<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<T>>, D::Error> {
        let value = Option::<T>::deserialize(deserializer)?;
        Ok(value.map(Arc::new))
    }
}

/// Text that is a value in JSON.
mod raw {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<str>, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(value.get().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster may have thousands of objects, and drift detection shares their text and baseline.
    #[test]
    fn a_stored_object_is_two_pointers() {
        assert!(size_of::<StoredObject>() <= 24);
        let baseline = Baseline {
            uid: "1".to_owned(),
            generation: None,
            resource_version: "2".to_owned(),
            time: "2026-11-24T12:00:00Z".to_owned(),
            fields: Default::default(),
        };
        let manifest = serde_json::json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
        for baseline in [None, Some(Arc::new(baseline))] {
            let object = StoredObject::new(&manifest, baseline.clone());
            let text = serde_json::to_string(&object).unwrap();
            let again: StoredObject = serde_json::from_str(&text).unwrap();
            assert_eq!(again.manifest(), manifest);
            assert_eq!(again.baseline, baseline);
        }
    }
}
