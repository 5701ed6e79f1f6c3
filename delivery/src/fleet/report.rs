//! Last report of an agent about one deployment, in 32 bytes while it is healthy.

use fairlead_api::{
    BundleId, RunId,
    delivery::{BundleKind, DeploymentReport, DeploymentState, DriftedObject, ObjectCounts},
};
use fairlead_rollout::{ClusterReport, UnixMillis};
use fairlead_store::model::hex;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::ulid;

/// Limit of a reason in characters.
const MAX_REASON_CHARS: usize = 1_000;
/// Limit of a code in characters.
const MAX_CODE_CHARS: usize = 16;
/// Limit of drifted objects.
const MAX_DRIFTED_OBJECTS: usize = 20;
/// Limit of fields of a drifted object.
const MAX_DRIFTED_FIELDS: usize = 20;
/// Limit of objects with fields beside those of the bundle: a report is small, because there may be 500,000.
const MAX_BESIDE_OBJECTS: usize = 10;
/// Limit of fields of such an object.
const MAX_BESIDE_FIELDS: usize = 10;
/// Limit of each text of a drifted object in characters.
const MAX_DRIFT_CHARS: usize = 300;

/// Last report of an agent about a bundle. Equal reports have equal forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredReport(ReportForm);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ReportForm {
    Compact(CompactReport),
    Full(Box<FullReport>),
}

/// A report whose generation is applied, whose objects are all healthy, and whose numbers are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CompactReport {
    run: [u8; 16],
    since: UnixMillis,
    /// Accepted and applied generation.
    generation: u32,
    /// Number of objects, all of them healthy.
    objects: u16,
    attempt: u8,
    state: DeploymentState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FullReport {
    facts: ReportFacts,
    details: ReportDetails,
}

/// State and numbers of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportFacts {
    pub(crate) generation: u64,
    pub(crate) applied: u64,
    /// Start of the state by the hub's clock.
    pub(crate) since: UnixMillis,
    /// Time of the next attempt; 0 for none.
    next_try: UnixMillis,
    /// ULID of the last run; zero for none.
    run: [u8; 16],
    pub(crate) objects: ObjectCounts,
    pub(crate) attempt: u32,
    pub(crate) state: DeploymentState,
    pub(crate) retries_exhausted: bool,
}

/// Parts that reports of healthy deployments lack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ReportDetails {
    reason: Option<Box<str>>,
    code: Option<Box<str>>,
    drift: Vec<DriftedObject>,
    beside: Vec<DriftedObject>,
}

impl CompactReport {
    /// The compact form; `None` if it would lose something.
    fn of(facts: &ReportFacts) -> Option<Self> {
        let compact = CompactReport {
            run: facts.run,
            since: facts.since,
            generation: facts.generation.try_into().ok()?,
            objects: facts.objects.total.try_into().ok()?,
            attempt: facts.attempt.try_into().ok()?,
            state: facts.state,
        };
        (compact.facts() == *facts).then_some(compact)
    }

    fn facts(&self) -> ReportFacts {
        let objects = u32::from(self.objects);
        ReportFacts {
            generation: self.generation.into(),
            applied: self.generation.into(),
            since: self.since,
            next_try: UnixMillis(0),
            run: self.run,
            objects: ObjectCounts {
                total: objects,
                ready: objects,
            },
            attempt: self.attempt.into(),
            state: self.state,
            retries_exhausted: false,
        }
    }
}

impl StoredReport {
    fn new(facts: ReportFacts, details: ReportDetails) -> Self {
        let compact = CompactReport::of(&facts).filter(|_| details == ReportDetails::default());
        StoredReport(match compact {
            Some(compact) => ReportForm::Compact(compact),
            None => ReportForm::Full(Box::new(FullReport { facts, details })),
        })
    }

    /// The report of an agent. The state goes on if the report before has the same one about the same generation.
    pub(crate) fn of(
        report: DeploymentReport,
        before: Option<&StoredReport>,
        now: UnixMillis,
    ) -> Self {
        let goes_on = before
            .map(StoredReport::facts)
            .filter(|it| it.state == report.state && it.generation == report.generation);
        let details = ReportDetails {
            reason: report.reason.map(|it| cut(it, MAX_REASON_CHARS).into()),
            code: report.code.map(|it| cut(it, MAX_CODE_CHARS).into()),
            drift: bounded(report.drift, MAX_DRIFTED_OBJECTS, MAX_DRIFTED_FIELDS),
            beside: bounded(report.beside, MAX_BESIDE_OBJECTS, MAX_BESIDE_FIELDS),
        };
        let facts = ReportFacts {
            generation: report.generation,
            applied: report.applied,
            since: goes_on.map_or(now, |it| it.since),
            next_try: report.next_try.map_or(UnixMillis(0), UnixMillis::from),
            run: report.run.as_ref().map_or([0; 16], ulid::bytes_of),
            objects: report.objects,
            attempt: report.attempt,
            state: report.state,
            retries_exhausted: report.retries_exhausted,
        };
        StoredReport::new(facts, details)
    }

    /// The report in the form of agents.
    pub(crate) fn to_report(&self, bundle: &BundleId) -> DeploymentReport {
        let facts = self.facts();
        DeploymentReport {
            bundle: bundle.clone(),
            state: facts.state,
            reason: self.reason().map(str::to_owned),
            code: self.code().map(str::to_owned),
            generation: facts.generation,
            applied: facts.applied,
            attempt: facts.attempt,
            next_try: self.next_try(),
            retries_exhausted: facts.retries_exhausted,
            objects: facts.objects,
            drift: self.drift().to_vec(),
            beside: self.beside().to_vec(),
            run: self.run(),
        }
    }

    /// Number of the report for the digest of all reports of a cluster. The start of the state is no part of it.
    pub(crate) fn digest(&self, bundle: &BundleId) -> u128 {
        u128::from_str_radix(&hex::hash_of(&self.to_report(bundle)), 16).unwrap_or(0)
    }

    /// The report as a rollout reads it.
    pub(crate) fn for_rollout(&self) -> ClusterReport<'_> {
        let facts = self.facts();
        ClusterReport {
            state: facts.state,
            generation: facts.generation,
            applied: facts.applied,
            retries_exhausted: facts.retries_exhausted,
            since: facts.since,
            cause: self.reason(),
        }
    }

    /// State and numbers.
    pub(crate) fn facts(&self) -> ReportFacts {
        match &self.0 {
            ReportForm::Compact(compact) => compact.facts(),
            ReportForm::Full(full) => full.facts,
        }
    }

    fn details(&self) -> Option<&ReportDetails> {
        match &self.0 {
            ReportForm::Compact(_) => None,
            ReportForm::Full(full) => Some(&full.details),
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.details()?.reason.as_deref()
    }

    pub(crate) fn code(&self) -> Option<&str> {
        self.details()?.code.as_deref()
    }

    pub(crate) fn drift(&self) -> &[DriftedObject] {
        self.details().map_or(&[], |it| it.drift.as_slice())
    }

    pub(crate) fn beside(&self) -> &[DriftedObject] {
        self.details().map_or(&[], |it| it.beside.as_slice())
    }

    pub(crate) fn next_try(&self) -> Option<OffsetDateTime> {
        let next_try = self.facts().next_try;
        (next_try != UnixMillis(0)).then(|| next_try.into())
    }

    pub(crate) fn run(&self) -> Option<RunId> {
        ulid::run_of(&self.facts().run)
    }

    /// The row of the report.
    pub(crate) fn to_row(&self, kind: BundleKind) -> String {
        let facts = self.facts();
        let row = ReportRow {
            state: facts.state,
            kind,
            generation: facts.generation,
            applied: facts.applied,
            since: facts.since,
            next_try: facts.next_try,
            run: self.run(),
            attempt: facts.attempt,
            total: facts.objects.total,
            ready: facts.objects.ready,
            retries_exhausted: facts.retries_exhausted,
            reason: self.reason().map(str::to_owned),
            code: self.code().map(str::to_owned),
            drift: self.drift().to_vec(),
            beside: self.beside().to_vec(),
        };
        // Serialization of texts and numbers cannot fail.
        serde_json::to_string(&row).unwrap_or_default()
    }

    /// Reads a row; `None` if it is none.
    pub(crate) fn from_row(body: &str) -> Option<(BundleKind, Self)> {
        let row: ReportRow = serde_json::from_str(body).ok()?;
        let details = ReportDetails {
            reason: row.reason.map(Into::into),
            code: row.code.map(Into::into),
            drift: row.drift,
            beside: row.beside,
        };
        let facts = ReportFacts {
            generation: row.generation,
            applied: row.applied,
            since: row.since,
            next_try: row.next_try,
            run: row.run.as_ref().map_or([0; 16], ulid::bytes_of),
            objects: ObjectCounts {
                total: row.total,
                ready: row.ready,
            },
            attempt: row.attempt,
            state: row.state,
            retries_exhausted: row.retries_exhausted,
        };
        Some((row.kind, StoredReport::new(facts, details)))
    }
}

/// A report in the database: short names, because there may be 500,000.
#[derive(Serialize, Deserialize)]
struct ReportRow {
    #[serde(rename = "s")]
    state: DeploymentState,
    #[serde(rename = "k", default, skip_serializing_if = "is_default")]
    kind: BundleKind,
    #[serde(rename = "g")]
    generation: u64,
    #[serde(rename = "p")]
    applied: u64,
    #[serde(rename = "t")]
    since: UnixMillis,
    #[serde(rename = "n", default, skip_serializing_if = "is_default")]
    next_try: UnixMillis,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(rename = "a", default, skip_serializing_if = "is_default")]
    attempt: u32,
    #[serde(rename = "o", default, skip_serializing_if = "is_default")]
    total: u32,
    #[serde(rename = "h", default, skip_serializing_if = "is_default")]
    ready: u32,
    #[serde(rename = "x", default, skip_serializing_if = "is_default")]
    retries_exhausted: bool,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    drift: Vec<DriftedObject>,
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<DriftedObject>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
    }
    text
}

fn bounded(
    mut drift: Vec<DriftedObject>,
    max_objects: usize,
    max_fields: usize,
) -> Vec<DriftedObject> {
    drift.truncate(max_objects);
    for object in &mut drift {
        object.object = cut(std::mem::take(&mut object.object), MAX_DRIFT_CHARS);
        object.fields.truncate(max_fields);
        for field in &mut object.fields {
            *field = cut(std::mem::take(field), MAX_DRIFT_CHARS);
        }
        object.manager = object.manager.take().map(|it| cut(it, MAX_DRIFT_CHARS));
    }
    drift
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(value: serde_json::Value) -> DeploymentReport {
        let mut report = json!({"bundle": "b-shop", "state": "Ready", "generation": 8, "applied": 8, "attempt": 1});
        for (key, value) in value.as_object().unwrap() {
            report[key] = value.clone();
        }
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn a_report_returns_from_memory_and_from_its_row() {
        let full = report(json!({
            "state": "Failed", "reason": "image pull failed", "code": "FL-6207", "retriesExhausted": true,
            "nextTry": "2026-11-24T12:00:00.5Z", "objects": {"total": 4, "ready": 3},
            "drift": [{"object": "Deployment shop/web", "fields": [".spec.replicas"], "manager": "kubectl"}],
            "beside": [{"object": "ConfigMap shop/web", "fields": [".data.extra"], "manager": "injector"}],
            "run": "run-01ARZ3NDEKTSV4RRFFQ69G5FAV",
        }));
        for (given, kind) in [
            (full, BundleKind::Helm),
            (report(json!({})), BundleKind::Manifests),
        ] {
            let stored = StoredReport::of(given.clone(), None, UnixMillis(7));
            assert_eq!(stored.to_report(&given.bundle), given);
            let row = stored.to_row(kind);
            assert_eq!(StoredReport::from_row(&row), Some((kind, stored)));
        }
    }

    #[test]
    fn reports_at_the_limits_of_the_compact_form_lose_nothing() {
        let objects = |total: u64, ready: u64| json!({"objects": {"total": total, "ready": ready}});
        for (given, is_compact) in [
            (json!({"generation": u32::MAX, "applied": u32::MAX}), true),
            (
                json!({"generation": 1_u64 << 32, "applied": 1_u64 << 32}),
                false,
            ),
            (json!({"generation": u64::MAX, "applied": u64::MAX}), false),
            (json!({"generation": 9}), false),
            (objects(65_535, 65_535), true),
            (objects(65_536, 65_536), false),
            (objects(2, 1), false),
            (json!({"attempt": 255}), true),
            (json!({"attempt": 256}), false),
            (json!({"state": "Applying"}), true),
            (json!({"retriesExhausted": true}), false),
            (json!({"nextTry": "2026-11-24T12:00:00Z"}), false),
            (json!({"code": "FL-6207"}), false),
        ] {
            let given = report(given);
            let stored = StoredReport::of(given.clone(), None, UnixMillis(7));
            assert_eq!(stored.details().is_none(), is_compact, "{given:?}");
            assert_eq!(stored.to_report(&given.bundle), given);
        }
    }

    #[test]
    fn a_healthy_report_is_small() {
        let healthy = report(
            json!({"run": "run-01ARZ3NDEKTSV4RRFFQ69G5FAV", "objects": {"total": 20, "ready": 20}}),
        );
        let stored = StoredReport::of(healthy, None, UnixMillis(1_795_255_200_123));
        assert!(stored.details().is_none());
        // Of 500,000 deployments each byte is half a megabyte.
        assert!(size_of::<Option<StoredReport>>() <= 32);
        let row = stored.to_row(BundleKind::Manifests);
        assert!(row.len() <= 130, "{row}");
    }

    #[test]
    fn a_state_begins_anew_with_another_state_or_generation() {
        let first = StoredReport::of(report(json!({})), None, UnixMillis(1));
        for (next, since) in [
            (json!({"objects": {"total": 1, "ready": 1}}), 1),
            (json!({"state": "NotReady"}), 5),
            (json!({"generation": 9}), 5),
        ] {
            let next = StoredReport::of(report(next), Some(&first), UnixMillis(5));
            assert_eq!(next.facts().since, UnixMillis(since));
        }
    }

    #[test]
    fn texts_and_lists_of_a_report_are_bounded() {
        let object = json!({"object": "x".repeat(9_999), "fields": vec!["f"; 99]});
        let long = report(
            json!({"reason": "ä".repeat(9_999), "code": "FL-".repeat(99), "drift": vec![&object; 99], "beside": vec![&object; 99]}),
        );
        let stored = StoredReport::of(long, None, UnixMillis(1));
        assert_eq!(stored.reason().unwrap().chars().count(), MAX_REASON_CHARS);
        assert_eq!(stored.drift().len(), MAX_DRIFTED_OBJECTS);
        assert_eq!(stored.drift()[0].fields.len(), MAX_DRIFTED_FIELDS);
        assert_eq!(stored.drift()[0].object.len(), MAX_DRIFT_CHARS);
        assert_eq!(stored.beside().len(), MAX_BESIDE_OBJECTS);
        assert_eq!(stored.beside()[0].fields.len(), MAX_BESIDE_FIELDS);
    }

    #[test]
    fn digest_depends_on_all_but_the_start_of_the_state() {
        let id: BundleId = "b-shop".parse().unwrap();
        let digest = |value, now| StoredReport::of(report(value), None, now).digest(&id);
        let first = digest(json!({}), UnixMillis(1));
        assert_eq!(first, digest(json!({}), UnixMillis(2)));
        assert_ne!(first, digest(json!({"attempt": 2}), UnixMillis(1)));
        let stored = StoredReport::of(report(json!({})), None, UnixMillis(1));
        assert_ne!(first, stored.digest(&"b-other".parse().unwrap()));
    }
}
