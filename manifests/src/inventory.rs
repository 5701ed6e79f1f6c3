//! Inventory of a deployment: the objects that it applied, packed for a Secret.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use miniz_oxide::{
    deflate::compress_to_vec_zlib,
    inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit},
};
use serde::{Deserialize, Serialize};

use crate::object::{ObjectKey, ObjectKind};

/// Largest size of a packed inventory: the limit of all data of a Secret.
pub const MAX_PACKED_BYTES: usize = 1 << 20;
/// Largest size of an unpacked inventory.
const MAX_UNPACKED_BYTES: usize = 16 << 20;
/// Version of the form, as its first byte.
const FORMAT_VERSION: u8 = 1;
/// zlib level; 6 is the usual compromise.
const COMPRESSION_LEVEL: u8 = 6;

/// An applied object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryEntry {
    /// Identity.
    pub key: ObjectKey,
    /// Version of the API at the last apply.
    pub version: String,
    /// UID; missing before the first answer of the API server.
    pub uid: Option<String>,
}

impl InventoryEntry {
    /// API group, version and kind.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        ObjectKind {
            group: self.key.group.clone(),
            version: self.version.clone(),
            kind: self.key.kind.clone(),
        }
    }
}

/// Objects of a deployment, by identity.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    entries: BTreeSet<ByKey>,
}

/// An entry that is its own key: a map would have each key twice.
#[derive(Debug, Clone)]
struct ByKey(InventoryEntry);

impl Borrow<ObjectKey> for ByKey {
    fn borrow(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

impl PartialEq for Inventory {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Inventory {}

/// A packed inventory that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// The packed form is too large for a Secret.
    #[error("the inventory takes {0} bytes; the limit is {MAX_PACKED_BYTES}")]
    TooLarge(usize),
    /// A newer agent wrote it.
    #[error("the inventory has form {0}; this agent reads {FORMAT_VERSION}")]
    Version(u8),
    /// The bytes are damaged.
    #[error("the inventory is damaged")]
    Damaged,
}

/// Form of the packed inventory: kinds and namespaces by number.
#[derive(Serialize, Deserialize)]
struct Packed {
    kinds: Vec<(String, String, String)>,
    namespaces: Vec<String>,
    /// Kind, namespace plus 1 or 0, name, UID or `""`.
    objects: Vec<(usize, usize, String, String)>,
}

impl Inventory {
    /// Adds an object, or replaces the entry with its identity. A known UID is kept if the new entry has none.
    pub fn insert(&mut self, mut entry: InventoryEntry) {
        if entry.uid.is_none()
            && let Some(old) = self.get(&entry.key)
        {
            entry.uid.clone_from(&old.uid);
        }
        self.entries.replace(ByKey(entry));
    }

    /// Removes an object.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.entries.remove(key);
    }

    /// Entry of an object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&InventoryEntry> {
        self.entries.get(key).map(|it| &it.0)
    }

    /// Entries, ordered by identity.
    pub fn iter(&self) -> impl Iterator<Item = &InventoryEntry> {
        self.entries.iter().map(|it| &it.0)
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The objects of both, with entries of `newer` first: the inventory to write before an apply.
    #[must_use]
    pub fn union(&self, newer: &Inventory) -> Inventory {
        let mut union = self.clone();
        for entry in newer.iter() {
            union.insert(entry.clone());
        }
        union
    }

    /// The inventory for many owners, without the free places that insertions leave in its tree.
    #[must_use]
    pub fn into_shared(self) -> Arc<Self> {
        let entries = self.entries.into_iter().collect();
        Arc::new(Inventory { entries })
    }

    /// Packs the inventory for a Secret.
    ///
    /// # Errors
    /// [`InventoryError::TooLarge`].
    pub fn pack(&self) -> Result<Vec<u8>, InventoryError> {
        let mut packed = Packed {
            kinds: Vec::new(),
            namespaces: Vec::new(),
            objects: Vec::with_capacity(self.len()),
        };
        let mut kinds = HashMap::new();
        let mut namespaces = HashMap::new();
        for entry in self.iter() {
            let kind = (
                entry.key.group.clone(),
                entry.version.clone(),
                entry.key.kind.clone(),
            );
            let kind = *kinds.entry(kind).or_insert_with_key(|kind| {
                packed.kinds.push(kind.clone());
                packed.kinds.len() - 1
            });
            let namespace = entry.key.namespace.clone().map_or(0, |namespace| {
                *namespaces.entry(namespace).or_insert_with_key(|namespace| {
                    packed.namespaces.push(namespace.clone());
                    packed.namespaces.len()
                })
            });
            let uid = entry.uid.clone().unwrap_or_default();
            packed
                .objects
                .push((kind, namespace, entry.key.name.clone(), uid));
        }
        let json = serde_json::to_vec(&packed).map_err(|_| InventoryError::Damaged)?;
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend(compress_to_vec_zlib(&json, COMPRESSION_LEVEL));
        if bytes.len() > MAX_PACKED_BYTES {
            return Err(InventoryError::TooLarge(bytes.len()));
        }
        Ok(bytes)
    }

    /// Reads a packed inventory.
    ///
    /// # Errors
    /// [`InventoryError::Version`] and [`InventoryError::Damaged`].
    pub fn unpack(bytes: &[u8]) -> Result<Self, InventoryError> {
        let (version, bytes) = bytes.split_first().ok_or(InventoryError::Damaged)?;
        if *version != FORMAT_VERSION {
            return Err(InventoryError::Version(*version));
        }
        let json = decompress_to_vec_zlib_with_limit(bytes, MAX_UNPACKED_BYTES);
        let json = json.map_err(|error| match error.status {
            TINFLStatus::HasMoreOutput => InventoryError::TooLarge(MAX_UNPACKED_BYTES),
            _ => InventoryError::Damaged,
        })?;
        let packed: Packed = serde_json::from_slice(&json).map_err(|_| InventoryError::Damaged)?;
        let mut inventory = Inventory::default();
        for (kind, namespace, name, uid) in packed.objects {
            let (group, version, kind) = packed
                .kinds
                .get(kind)
                .cloned()
                .ok_or(InventoryError::Damaged)?;
            let namespace = match namespace.checked_sub(1) {
                None => None,
                Some(at) => Some(
                    packed
                        .namespaces
                        .get(at)
                        .cloned()
                        .ok_or(InventoryError::Damaged)?,
                ),
            };
            let key = ObjectKey {
                group,
                kind,
                namespace,
                name,
            };
            let uid = Some(uid).filter(|it| !it.is_empty());
            inventory.insert(InventoryEntry { key, version, uid });
        }
        Ok(inventory)
    }
}

impl FromIterator<InventoryEntry> for Inventory {
    fn from_iter<I: IntoIterator<Item = InventoryEntry>>(entries: I) -> Self {
        let mut inventory = Inventory::default();
        entries.into_iter().for_each(|it| inventory.insert(it));
        inventory
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        uid: Option<String>,
    ) -> InventoryEntry {
        InventoryEntry {
            key: ObjectKey {
                group: "apps".to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
            version: "v1".to_owned(),
            uid,
        }
    }

    /// A UUID of random digits from a counter.
    fn uid(seed: u64) -> String {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (a, b) = (next(), next());
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            a & 0xffff,
            (a >> 16) & 0xffff,
            b >> 48,
            b & 0xffff_ffff_ffff
        )
    }

    #[test]
    fn ten_thousand_entries_fit_into_a_secret() {
        let inventory: Inventory = (0..10_000_u64)
            .map(|at| {
                let kind = ["Deployment", "StatefulSet", "DaemonSet"][at as usize % 3];
                let namespace = format!("team-{}", at % 40);
                let id = uid(at + 1_000_000);
                let name = format!("component-{}-{}", at, id.get(..10).unwrap());
                entry(kind, Some(&namespace), &name, Some(uid(at)))
            })
            .collect();
        let bytes = inventory.pack().unwrap();
        // 332 KB with random UIDs, 33 bytes an object.
        assert!(bytes.len() < 400_000, "{} bytes", bytes.len());
        assert_eq!(Inventory::unpack(&bytes).unwrap(), inventory);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let inventory: Inventory = [entry("Deployment", None, "a", None)].into_iter().collect();
        let mut bytes = inventory.pack().unwrap();
        assert_eq!(Inventory::unpack(&[]), Err(InventoryError::Damaged));
        assert_eq!(Inventory::unpack(&bytes[..9]), Err(InventoryError::Damaged));
        bytes[0] = 2;
        assert_eq!(Inventory::unpack(&bytes), Err(InventoryError::Version(2)));
        let bomb = vec![b' '; MAX_UNPACKED_BYTES + 1];
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend(compress_to_vec_zlib(&bomb, 9));
        assert_eq!(
            Inventory::unpack(&bytes),
            Err(InventoryError::TooLarge(MAX_UNPACKED_BYTES))
        );
    }

    #[test]
    fn union_keeps_known_uids() {
        let old: Inventory = [
            entry("Deployment", None, "a", Some("1".into())),
            entry("Deployment", None, "b", Some("2".into())),
        ]
        .into_iter()
        .collect();
        let new: Inventory = [
            entry("Deployment", None, "a", None),
            entry("Job", None, "c", None),
        ]
        .into_iter()
        .collect();
        let union = old.union(&new);
        let uids: Vec<_> = union.iter().map(|it| it.uid.as_deref()).collect();
        assert_eq!(uids, [Some("1"), Some("2"), None]);
    }

    proptest! {
        #[test]
        fn packed_inventory_is_the_same(entries in prop::collection::vec(
            ("[A-Z][a-z]{0,5}", prop::option::of("[a-z]{1,4}"), "[a-z.-]{1,12}", prop::option::of("[0-9a-f-]{1,36}")), 0..40)
        ) {
            let inventory: Inventory = entries
                .into_iter()
                .map(|(kind, namespace, name, uid)| entry(&kind, namespace.as_deref(), &name, uid))
                .collect();
            prop_assert_eq!(Inventory::unpack(&inventory.pack().unwrap()).unwrap(), inventory);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Inventory::unpack(&bytes);
        }
    }
}
