//! Form of a journal in Secrets.
//!
//! A large content lies in Secrets of its own. They are written first, under names that the current journal does not use,
//! so that a kill between two writes leaves the old journal whole.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::BundleId;
use fairlead_manifests::Inventory;
use serde_json::{Value, json};
use tracing::debug;

use super::{
    JOURNAL_LABEL, JournalState,
    content::{ContentParts, ContentTooLarge, JournalContent, MAX_PART_BYTES, digest_of},
    metadata,
    record::JournalRecord,
    secret_name,
};
use crate::{
    fence::DELIVERY_NAMESPACE,
    kube::{KubeClient, KubeError, Propagation},
};

/// Type of the Secrets.
const JOURNAL_TYPE: &str = "fairlead/release";
/// Largest data of the first Secret, without the content.
const MAX_FIRST_BYTES: usize = 960 * 1024;

pub(super) fn collection() -> String {
    format!("/api/v1/namespaces/{DELIVERY_NAMESPACE}/secrets")
}

pub(super) fn path(name: &str) -> String {
    format!("{}/{name}", collection())
}

/// Version and UID of a written Secret.
#[derive(Debug, Clone)]
pub(super) struct StoredSecret {
    pub(super) uid: String,
    version: String,
    /// Content that the Secret names, if it is in parts or inline.
    parts: Option<ContentParts>,
    /// Content inline, in base64.
    inline: Option<Value>,
    name: String,
}

impl StoredSecret {
    pub(super) fn of(secret: &Value) -> Option<Self> {
        Some(Self {
            uid: metadata(secret, "uid")?.to_owned(),
            version: metadata(secret, "resourceVersion")?.to_owned(),
            parts: record_of(secret).ok().and_then(|record| record.parts),
            inline: secret.pointer("/data/content").cloned(),
            name: metadata(secret, "name")?.to_owned(),
        })
    }

    /// Names of the Secrets with the content.
    pub(super) fn part_names(&self) -> Vec<String> {
        part_names(&self.name, self.parts.as_ref()).collect()
    }
}

/// A state in the form of its Secrets.
pub(super) struct Packed {
    record: JournalRecord,
    inventory: Vec<u8>,
    /// Packed content; none if the written one stays.
    content: Option<Vec<u8>>,
}

impl Packed {
    pub(super) fn of(state: &JournalState, is_new_content: bool) -> Result<Self, ContentTooLarge> {
        let inventory = state.inventory.pack().map_err(|_| ContentTooLarge {
            bytes: MAX_FIRST_BYTES + 1,
            limit: MAX_FIRST_BYTES,
        })?;
        if inventory.len() > MAX_FIRST_BYTES {
            return Err(ContentTooLarge {
                bytes: inventory.len(),
                limit: MAX_FIRST_BYTES,
            });
        }
        let content = is_new_content.then(|| state.content.pack());
        Ok(Self {
            record: state.record.clone(),
            inventory,
            content: content.transpose()?,
        })
    }

    /// Writes the Secrets; the first one last.
    pub(super) async fn write(
        mut self,
        client: &KubeClient,
        bundle: &BundleId,
        stored: Option<&StoredSecret>,
    ) -> Result<StoredSecret, KubeError> {
        let name = secret_name(bundle);
        let old = stored.and_then(|stored| stored.parts.clone());
        let mut data = json!({ "inventory": STANDARD.encode(&self.inventory) });
        match self.content.take() {
            None => {
                self.record.parts = old.clone();
                if let Some(inline) = stored.and_then(|stored| stored.inline.clone()) {
                    set(&mut data, "content", inline);
                }
            }
            Some(packed) => {
                let parts = self.place(&packed, old.as_ref());
                if parts.count == 0 {
                    set(&mut data, "content", STANDARD.encode(&packed).into());
                } else {
                    write_parts(client, bundle, &parts, &packed).await?;
                }
                self.record.parts = Some(parts);
            }
        }
        let record = serde_json::to_vec(&self.record).map_err(|error| {
            KubeError::Unreachable(format!("the record has no form in JSON: {error}"))
        })?;
        set(&mut data, "record", STANDARD.encode(record).into());
        let mut secret = object(bundle, &name, &data);
        let written = match stored {
            None => client.create(&collection(), &secret).await?,
            Some(stored) => {
                let version = json!(stored.version);
                if let Some(Value::Object(metadata)) = secret.get_mut("metadata") {
                    metadata.insert("resourceVersion".to_owned(), version);
                }
                client.replace(&path(&name), &secret).await?
            }
        };
        if let Some(old) = old.filter(|old| self.record.parts.as_ref() != Some(old)) {
            delete_parts(client, &name, &old).await;
        }
        StoredSecret::of(&written)
            .ok_or_else(|| KubeError::Unreachable("the answer has no version".to_owned()))
    }

    /// Place of a new content.
    fn place(&self, packed: &[u8], old: Option<&ContentParts>) -> ContentParts {
        let fits = self.inventory.len() + packed.len() <= MAX_PART_BYTES / 2;
        let slot = match old {
            Some(old) if old.slot == 'a' => 'b',
            _ => 'a',
        };
        ContentParts {
            slot,
            count: if fits {
                0
            } else {
                packed.len().div_ceil(MAX_PART_BYTES)
            },
            digest: digest_of(packed),
        }
    }
}

fn set(data: &mut Value, key: &str, value: Value) {
    if let Value::Object(data) = data {
        data.insert(key.to_owned(), value);
    }
}

fn object(bundle: &BundleId, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": DELIVERY_NAMESPACE,
            "labels": { JOURNAL_LABEL: bundle },
        },
        "type": JOURNAL_TYPE,
        "data": data,
    })
}

fn part_name(name: &str, slot: char, number: usize) -> String {
    format!("{name}.{slot}{number}")
}

/// Names of the parts of a content.
fn part_names(name: &str, parts: Option<&ContentParts>) -> impl Iterator<Item = String> {
    let count = parts.map_or(0, |parts| parts.count);
    let slot = parts.map_or('a', |parts| parts.slot);
    let name = name.to_owned();
    (0..count).map(move |number| part_name(&name, slot, number))
}

async fn write_parts(
    client: &KubeClient,
    bundle: &BundleId,
    parts: &ContentParts,
    packed: &[u8],
) -> Result<(), KubeError> {
    let name = secret_name(bundle);
    for (number, part) in packed.chunks(MAX_PART_BYTES).enumerate() {
        let name = part_name(&name, parts.slot, number);
        let data = json!({ "content": STANDARD.encode(part) });
        let secret = object(bundle, &name, &data);
        match client.create(&collection(), &secret).await {
            Ok(_) => {}
            // Left by a write that was killed.
            Err(KubeError::Status { status: 409, .. }) => {
                client.replace(&path(&name), &secret).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn delete_parts(client: &KubeClient, name: &str, parts: &ContentParts) {
    for number in 0..parts.count {
        let path = path(&part_name(name, parts.slot, number));
        if let Err(error) = client.delete(&path, None, Propagation::Background).await {
            // The next content in this slot overwrites it.
            debug!(%error, "old part of a journal not deleted");
        }
    }
}

/// Parts of all journals, by name.
pub(super) struct Parts<'a> {
    by_name: HashMap<&'a str, &'a Value>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(secrets: &'a [Value]) -> Self {
        let named = |secret| Some((metadata(secret, "name")?, secret));
        Self {
            by_name: secrets.iter().filter_map(named).collect(),
        }
    }

    fn collect(&self, name: &str, record: &JournalRecord) -> Option<Vec<u8>> {
        let mut packed = Vec::new();
        for name in part_names(name, record.parts.as_ref()) {
            packed.extend(data(self.by_name.get(name.as_str())?, "content")?);
        }
        Some(packed)
    }
}

/// Bundle of the first Secret of a journal. None for a part.
pub(super) fn bundle_of(secret: &Value) -> Option<BundleId> {
    metadata(secret, "name")?
        .strip_prefix("release-")?
        .parse()
        .ok()
}

pub(super) fn record_of(secret: &Value) -> Result<JournalRecord, String> {
    let bytes = data(secret, "record").ok_or("the record is missing")?;
    serde_json::from_slice(&bytes).map_err(|error| format!("the record is damaged: {error}"))
}

/// Reads a journal. What cannot be read is left out, with a note in the record.
pub(super) fn read(secret: &Value, parts: &Parts<'_>) -> (JournalState, Option<StoredSecret>) {
    let stored = StoredSecret::of(secret);
    let mut state = JournalState::default();
    match record_of(secret) {
        Ok(record) => state.record = record,
        Err(damage) => {
            state.record.damage = Some(damage);
            return (state, stored);
        }
    }
    let inventory = data(secret, "inventory").map(|bytes| Inventory::unpack(&bytes));
    match inventory {
        Some(Ok(inventory)) => state.inventory = inventory.into_shared(),
        Some(Err(error)) => state.record.damage = Some(error.to_string()),
        None => state.record.damage = Some("the inventory is missing".to_owned()),
    }
    match read_content(secret, parts, &state.record) {
        Ok(content) => state.content = content.into(),
        Err(damage) => state.record.damage = Some(damage),
    }
    (state, stored)
}

fn read_content(
    secret: &Value,
    parts: &Parts<'_>,
    record: &JournalRecord,
) -> Result<JournalContent, String> {
    let Some(place) = &record.parts else {
        return Ok(JournalContent::default());
    };
    let name = metadata(secret, "name").unwrap_or_default();
    let packed = match place.count {
        0 => data(secret, "content"),
        _ => parts.collect(name, record),
    };
    let packed = packed.ok_or("a part of the content is missing")?;
    if digest_of(&packed) != place.digest {
        return Err("the content has another digest".to_owned());
    }
    JournalContent::unpack(&packed)
}

fn data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = secret.get("data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok()
}
