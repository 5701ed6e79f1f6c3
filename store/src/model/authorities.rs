//! Certificate authorities of the hub, the epoch of its store, and numbers that must never be used again. Keys are never in here.

use std::collections::BTreeMap;

use fairlead_api::{BundleId, CaPin};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Authorities and epoch: one document per store, written first by a rotation or a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorities {
    /// Always [`Authorities::ID`].
    pub id: String,
    /// Time of the last restore, in seconds since 1970; part of the serial numbers of identities. 0 before the first one.
    #[serde(default)]
    pub epoch: u32,
    /// Epoch whose predecessors an admin has confirmed: identities and tokens from before are valid again.
    #[serde(default)]
    pub confirmed_epoch: u32,
    /// The authority that signs the hub's own certificates; `None` before the first rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<CaRecord>,
    /// The authority that signs identities, while the CA is rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<CaRecord>,
    /// Former authorities, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<RetiredCa>,
    /// Last generations of deleted bundles: agents refuse lower ones, also of a new bundle with the same id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deleted_bundles: BTreeMap<BundleId, u64>,
    /// Highest last generation of all other deleted bundles.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deleted_bundles_floor: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A trusted authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaRecord {
    /// SHA-256 of its public key.
    pub pin: CaPin,
    /// Certificate in PEM.
    pub certificate: String,
}

/// An authority that is no longer trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetiredCa {
    /// SHA-256 of its public key.
    pub pin: CaPin,
    /// Time of its retirement.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Clusters that were cut off by force.
    #[serde(default)]
    pub left_behind: usize,
}

impl Default for Authorities {
    fn default() -> Self {
        Authorities {
            id: Authorities::ID.to_owned(),
            epoch: 0,
            confirmed_epoch: 0,
            current: None,
            next: None,
            retired: Vec::new(),
            deleted_bundles: BTreeMap::new(),
            deleted_bundles_floor: 0,
        }
    }
}

impl Authorities {
    /// Id of the one document.
    pub const ID: &'static str = "hub";
    /// Limit of remembered former authorities.
    pub const MAX_RETIRED: usize = 16;
    /// Limit of deleted bundles with a number of their own.
    pub const MAX_DELETED_BUNDLES: usize = 1_000;

    /// Whether an identity of this epoch may be valid: epochs before the last restore need a confirmation.
    #[must_use]
    pub fn admits_epoch(&self, epoch: u32) -> bool {
        epoch == self.epoch || self.confirmed_epoch == self.epoch
    }

    /// As [`Authorities::admits_epoch`], for something made at this time.
    #[must_use]
    pub fn admits_made_at(&self, at: OffsetDateTime) -> bool {
        at.unix_timestamp() >= i64::from(self.epoch) || self.confirmed_epoch == self.epoch
    }

    /// Begins the epoch of a restore at this time. Epochs always grow, also if a clock was set back.
    pub fn begin_epoch(&mut self, now: OffsetDateTime) {
        let now = u32::try_from(now.unix_timestamp()).unwrap_or(u32::MAX);
        self.epoch = now.max(self.epoch.saturating_add(1));
    }

    /// Last generation of a deleted bundle with this id; 0 without one.
    #[must_use]
    pub fn deleted_generation(&self, bundle: &BundleId) -> u64 {
        let own = self.deleted_bundles.get(bundle).copied();
        own.unwrap_or_default().max(self.deleted_bundles_floor)
    }

    /// Remembers the last generation of a deleted bundle. Beyond the limit the lowest number joins the floor of all.
    pub fn remember_deleted(&mut self, bundle: &BundleId, generation: u64) {
        let generation = generation.max(self.deleted_generation(bundle));
        self.deleted_bundles.insert(bundle.clone(), generation);
        if self.deleted_bundles.len() <= Self::MAX_DELETED_BUNDLES {
            return;
        }
        let lowest = self
            .deleted_bundles
            .iter()
            .min_by_key(|(_, number)| **number);
        let Some((lowest, number)) = lowest.map(|(id, number)| (id.clone(), *number)) else {
            return;
        };
        self.deleted_bundles.remove(&lowest);
        self.deleted_bundles_floor = self.deleted_bundles_floor.max(number);
    }

    /// Pins of the trusted authorities, oldest first; none before the first rotation.
    #[must_use]
    pub fn pins(&self) -> Vec<CaPin> {
        let records = [&self.current, &self.next].into_iter().flatten();
        records.map(|record| record.pin).collect()
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;

    #[test]
    fn a_restore_voids_what_is_older_until_it_is_confirmed() {
        let restored = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
        let mut hub = Authorities::default();
        assert!(hub.admits_epoch(0) && hub.admits_made_at(OffsetDateTime::UNIX_EPOCH));
        hub.begin_epoch(restored);
        assert!(hub.admits_epoch(hub.epoch) && !hub.admits_epoch(0));
        assert!(!hub.admits_made_at(restored - Duration::SECOND));
        assert!(hub.admits_made_at(restored));
        hub.confirmed_epoch = hub.epoch;
        assert!(hub.admits_epoch(0) && hub.admits_made_at(OffsetDateTime::UNIX_EPOCH));

        let first = hub.epoch;
        hub.begin_epoch(restored - Duration::days(1));
        assert!(hub.epoch > first, "the clock was set back");
        assert!(!hub.admits_epoch(first) && !hub.admits_epoch(0));
    }

    #[test]
    fn numbers_of_deleted_bundles_are_never_forgotten() {
        let id = |number: u64| format!("b-{number}").parse().unwrap();
        let mut hub = Authorities::default();
        for number in 1..=1_010 {
            hub.remember_deleted(&id(number), number);
        }
        hub.remember_deleted(&id(1_005), 3);
        assert_eq!(hub.deleted_bundles.len(), Authorities::MAX_DELETED_BUNDLES);
        assert_eq!(hub.deleted_generation(&id(1_005)), 1_005);
        assert_eq!(hub.deleted_generation(&id(4)), 10, "the floor of all");
        assert_eq!(hub.deleted_generation(&id(5_000)), 10);
    }
}
