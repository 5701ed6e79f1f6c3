//! Reports of agents about their deployments.

use std::collections::BTreeSet;

use fairlead_api::{
    BundleId, ClusterId, RunId,
    delivery::{BundleKind, DeploymentReport, DeploymentReports, DeploymentState},
};
use fairlead_rollout::UnixMillis;

use super::{Fleet, bundle_state::BundleState, report::StoredReport};

/// Limit of bundles that one cluster may report.
const MAX_REPORTED_BUNDLES: usize = 2_000;

/// Limit of bundles that the hub does not know and one cluster reports.
const MAX_UNKNOWN_BUNDLES: usize = 500;

/// Outcome of reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakenReports {
    /// The hub has all states of the cluster, with this ETag.
    Taken(String),
    /// The hub has another base: the agent reports all states.
    OtherBase,
    /// No such cluster.
    NoCluster,
}

impl Fleet {
    /// Takes reports of a cluster's agent.
    pub(crate) fn report(
        &mut self,
        cluster: &ClusterId,
        reports: DeploymentReports,
        now: UnixMillis,
    ) -> TakenReports {
        let Some(entry) = self.clusters.get(cluster) else {
            return TakenReports::NoCluster;
        };
        let known = entry.reports_etag();
        if reports.base.as_ref().is_some_and(|it| *it != known) {
            return TakenReports::OtherBase;
        }
        let mut gone = reports.gone;
        if reports.base.is_none() {
            let named: BTreeSet<&BundleId> = reports.reports.iter().map(|it| &it.bundle).collect();
            gone.extend(self.other_bundles(cluster, &named));
        }
        for report in reports.reports.into_iter().take(MAX_REPORTED_BUNDLES) {
            self.take_report(cluster, report, now);
        }
        for bundle in gone {
            self.take_gone(cluster, &bundle);
        }
        let entry = self.clusters.get(cluster);
        let etag = entry.map(super::cluster_entry::ClusterEntry::reports_etag);
        etag.map_or(TakenReports::NoCluster, TakenReports::Taken)
    }

    /// Bundles with a report or a tombstone of the cluster, except for the named ones.
    fn other_bundles(&self, cluster: &ClusterId, named: &BTreeSet<&BundleId>) -> Vec<BundleId> {
        let others = self.bundles.values().filter(|it| {
            let cell = it.cells.get(cluster);
            let is_reported = cell.is_some_and(|it| it.report.is_some());
            (is_reported || it.has_tombstone(cluster)) && !named.contains(&it.id)
        });
        others.map(|it| it.id.clone()).collect()
    }

    /// True if the agent is connected, and since `at` reports no work on a run up to `run`. A result does not come any more.
    pub(crate) fn is_idle_since(
        &self,
        (cluster, bundle): (&ClusterId, &BundleId),
        run: &RunId,
        at: UnixMillis,
    ) -> bool {
        let is_connected = self.clusters.get(cluster).is_some_and(|it| it.connected);
        let bundle = self.bundles.get(bundle);
        let cell = bundle.and_then(|it| it.cells.get(cluster));
        let is_idle = |report: &StoredReport| {
            let facts = report.facts();
            let is_working = matches!(
                facts.state,
                DeploymentState::Applying | DeploymentState::Removing
            );
            !is_working && facts.since <= at && report.run().is_some_and(|last| last >= *run)
        };
        let report = cell.and_then(|it| it.report.as_ref());
        is_connected && report.is_none_or(is_idle)
    }

    fn take_report(&mut self, cluster: &ClusterId, report: DeploymentReport, now: UnixMillis) {
        let id = report.bundle.clone();
        // After a restore agents report bundles that the hub does not know.
        if !self.bundles.contains_key(&id) && self.unknown_bundles(cluster) >= MAX_UNKNOWN_BUNDLES {
            return;
        }
        let bundle = self.bundles.entry(id.clone());
        let bundle = bundle.or_insert_with(|| BundleState::new(id.clone(), BundleKind::default()));
        let kind = bundle.kind;
        let cell = bundle.cells.entry(cluster, now);
        let stored = StoredReport::of(report, cell.report.as_ref(), now);
        if cell.report.as_ref() == Some(&stored) {
            return;
        }
        let row = stored.to_row(kind);
        self.set_report(cluster, &id, Some(stored));
        self.rows.insert((cluster.clone(), id), row);
    }

    fn unknown_bundles(&self, cluster: &ClusterId) -> usize {
        let bundles = self.bundles.values();
        bundles
            .filter(|it| it.record.is_none() && it.cells.get(cluster).is_some())
            .count()
    }

    fn take_gone(&mut self, cluster: &ClusterId, id: &BundleId) {
        let Some(bundle) = self.bundles.get_mut(id) else {
            return;
        };
        if bundle.has_tombstone(cluster) {
            self.removed.insert((id.clone(), cluster.clone()));
        }
        if let Some(cell) = bundle.cells.get_mut(cluster)
            && !cell.targeting().is_targeted()
        {
            cell.released = 0;
        }
        let had_report = bundle
            .cells
            .get(cluster)
            .is_some_and(|it| it.report.is_some());
        if had_report {
            self.rows
                .insert((cluster.clone(), id.clone()), String::new());
        }
        self.set_report(cluster, id, None);
    }

    /// Replaces the report about a deployment, in memory only.
    pub(super) fn set_report(
        &mut self,
        cluster: &ClusterId,
        id: &BundleId,
        report: Option<StoredReport>,
    ) {
        let Some(bundle) = self.bundles.get_mut(id) else {
            return;
        };
        let Some(cell) = bundle.cells.get_mut(cluster) else {
            return;
        };
        let is_same = cell.report == report;
        let digest = |report: &Option<StoredReport>| {
            let report = report.as_ref();
            report.map_or(0, |it| it.digest(id))
        };
        let (old, new) = (digest(&cell.report), digest(&report));
        cell.report = report;
        bundle.remove_if_void(cluster);
        let is_forgotten = bundle.record.is_none() && bundle.cells.len() == 0;
        if let Some(entry) = self.clusters.get_mut(cluster) {
            entry.reports = entry.reports.wrapping_sub(old).wrapping_add(new);
        }
        if !is_same {
            self.reported.push((id.clone(), cluster.clone()));
            self.note_change(cluster, id);
        }
        if is_forgotten {
            self.bundles.remove(id);
        }
    }

    /// Takes a stored row: of the last start, or of another hub.
    pub(crate) fn take_row(
        &mut self,
        cluster: &ClusterId,
        id: &BundleId,
        body: &str,
        now: UnixMillis,
    ) {
        let is_pending = self.rows.contains_key(&(cluster.clone(), id.clone()));
        if is_pending || !self.clusters.contains_key(cluster) {
            return;
        }
        let Some((kind, report)) = StoredReport::from_row(body) else {
            self.set_report(cluster, id, None);
            return;
        };
        let bundle = self.bundles.entry(id.clone());
        let bundle = bundle.or_insert_with(|| BundleState::new(id.clone(), kind));
        if bundle.record.is_none() {
            bundle.kind = kind;
        }
        let cell = bundle.cells.entry(cluster, now);
        if cell.report.as_ref() != Some(&report) {
            self.set_report(cluster, id, Some(report));
        }
    }

    /// Lets rollouts know of new reports.
    pub(crate) fn note_reports(&mut self, now: UnixMillis) {
        let reported = std::mem::take(&mut self.reported);
        let (around, bundles) = self.parts(now);
        for (id, cluster) in reported {
            if let Some(bundle) = bundles.get_mut(&id) {
                bundle.note_report(around, &cluster);
            }
        }
    }
}
