//! The state of an applied object, and the decision whether to compare it.

use std::time::Duration;

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::managed::FieldOwner;
use crate::object::text;

/// Time after an apply in which the second of our entry's `time` tells nothing.
pub const SAME_SECOND_WINDOW: Duration = Duration::from_secs(2);
/// Bytes of the stored digest of `fieldsV1`.
const DIGEST_BYTES: usize = 16;

/// Metadata of an object in the answer to our last apply, or to a dry run after which nothing differs. Never take it from a watch event: a change between answer and
/// event would become the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// UID.
    pub uid: String,
    /// Generation, for kinds that have one.
    pub generation: Option<i64>,
    /// Version of the object.
    pub resource_version: String,
    /// Time of our entry.
    pub time: String,
    /// Start of the SHA-256 of our entry's `fieldsV1`.
    pub fields: [u8; DIGEST_BYTES],
}

/// Cause of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareReason {
    /// The object was deleted and made again.
    Replaced,
    /// The object is being deleted.
    Deleting,
    /// Our entry has other fields, or is gone.
    Ownership,
    /// Somebody used our manager name.
    OwnName,
    /// The generation is another one.
    Generation,
    /// The object changed within the second of our apply.
    SameSecond,
}

/// Decision about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Observation {
    /// Nobody changed our fields.
    Same,
    /// Compare by a forced dry run.
    Compare(CompareReason),
    /// The object is gone: drift.
    Gone,
    /// The object has another value of the label, or none.
    LeftSelector,
}

/// Information about an object.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// Metadata of a list, or of an event `ADDED` or `MODIFIED`.
    Present(&'a Value),
    /// An event `DELETED`, and the object read after it; `None` if the API server has it no longer. The event alone does
    /// not tell a deletion from a removed label.
    Deleted(Option<&'a Value>),
}

impl Baseline {
    /// Takes the baseline from the answer to an apply. None without UID or own entry.
    #[must_use]
    pub fn of_answer(answer: &Value, owner: &FieldOwner) -> Option<Self> {
        let entry = owner.entry(answer)?;
        Some(Self {
            uid: text(answer, "/metadata/uid")?.to_owned(),
            generation: generation(answer),
            resource_version: text(answer, "/metadata/resourceVersion")?.to_owned(),
            time: entry.time.to_owned(),
            fields: fingerprint(entry.fields),
        })
    }

    /// Decides about an object. `label` is name and value of the label that the watch selects. `since_apply` is the time
    /// since the answer to our last apply.
    #[must_use]
    pub fn judge(
        &self,
        seen: Seen<'_>,
        owner: &FieldOwner,
        (label, value): (&str, &str),
        since_apply: Duration,
    ) -> Observation {
        let object = match seen {
            Seen::Deleted(None) => return Observation::Gone,
            Seen::Deleted(Some(object)) | Seen::Present(object) => object,
        };
        if text(object, "/metadata/uid") != Some(&self.uid) {
            return Observation::Compare(CompareReason::Replaced);
        }
        let labels = object.pointer("/metadata/labels");
        let observed = labels.and_then(|it| it.get(label));
        if observed.and_then(Value::as_str) != Some(value) {
            return Observation::LeftSelector;
        }
        match self.difference(object, owner, since_apply) {
            None => Observation::Same,
            Some(reason) => Observation::Compare(reason),
        }
    }

    fn difference(
        &self,
        object: &Value,
        owner: &FieldOwner,
        since_apply: Duration,
    ) -> Option<CompareReason> {
        if text(object, "/metadata/deletionTimestamp").is_some() {
            return Some(CompareReason::Deleting);
        }
        let Some(entry) = owner.entry(object) else {
            return Some(CompareReason::Ownership);
        };
        if fingerprint(entry.fields) != self.fields {
            return Some(CompareReason::Ownership);
        }
        if entry.time != self.time {
            return Some(CompareReason::OwnName);
        }
        if generation(object) != self.generation {
            return Some(CompareReason::Generation);
        }
        let is_same_version =
            text(object, "/metadata/resourceVersion") == Some(&self.resource_version);
        (!is_same_version && since_apply < SAME_SECOND_WINDOW).then_some(CompareReason::SameSecond)
    }
}

fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation")?.as_i64()
}

fn fingerprint(fields: &Value) -> [u8; DIGEST_BYTES] {
    let digest = digest::digest(&digest::SHA256, fields.to_string().as_bytes());
    let mut start = [0; DIGEST_BYTES];
    for (to, from) in start.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    start
}
