//! `POST /agent/v1/facts`: facts of the agent's own cluster. A report without changes only updates
//! the time of the last report.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{Json, extract::State};
use fairlead_api::{
    ClusterId, Code,
    facts::{MAX_REPORT_BYTES, Report, ReportReceipt},
    hello::Instance,
};
use fairlead_registry::{RegistryError, admit};
use fairlead_routes::reply::{Answer, JsonBody, Peer};
use fairlead_seam::AgentPeer;
use fairlead_store::{
    Actor, Record, StoreError, millis,
    model::{Cluster, FactSource},
};

use crate::{
    apply::{apply, check, etag},
    state::FactsState,
};

/// Recent reports per cluster. A loss only causes a full comparison.
#[derive(Default)]
pub(super) struct Reports(Mutex<HashMap<ClusterId, Remembered>>);

#[derive(Default)]
struct Remembered {
    /// Content hash for a version of the cluster's record.
    etag: Option<(u64, String)>,
    /// Last sequence number of each of the most recent agent runs.
    last: VecDeque<(Instance, u64)>,
}

/// Number of agent runs tracked per cluster.
const MAX_RUNS: usize = 16;
/// Number of entries above which those of deleted clusters are dropped.
const MAX_DELETED_ENTRIES: usize = 1024;

impl Reports {
    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterId, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Content hash of the agent's facts.
    fn etag(&self, cluster: &Record<Cluster>) -> String {
        let id = &cluster.value.id;
        if let Some((version, etag)) = self.lock().get(id).and_then(|it| it.etag.as_ref())
            && *version == cluster.version
        {
            return etag.clone();
        }
        let etag = etag(&cluster.value.dynamic_facts);
        let remembered = Some((cluster.version, etag.clone()));
        self.lock().entry(id.clone()).or_default().etag = remembered;
        etag
    }

    /// True if a newer report of the same run was accepted already; otherwise records this one.
    fn is_late(&self, cluster: &ClusterId, report: &Report) -> bool {
        let mut all = self.lock();
        let last = &mut all.entry(cluster.clone()).or_default().last;
        match last.iter_mut().find(|(run, _)| *run == report.instance) {
            Some((_, sequence)) if *sequence > report.sequence => return true,
            Some((_, sequence)) => *sequence = report.sequence,
            None => {
                last.truncate(MAX_RUNS - 1);
                last.push_front((report.instance, report.sequence));
            }
        }
        false
    }

    fn forget_deleted(&self, state: &FactsState) {
        let view = state.store.view();
        let mut all = self.lock();
        if all.len() > view.clusters().count() + MAX_DELETED_ENTRIES {
            all.retain(|id, _| view.cluster(id).is_some());
        }
    }
}

pub(super) async fn take(
    State((state, reports)): State<(Arc<FactsState>, Arc<Reports>)>,
    Peer(peer): Peer,
    JsonBody(report): JsonBody<Report, MAX_REPORT_BYTES>,
) -> Answer<Json<ReportReceipt>> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    let cluster = admit(&state.store, &identity)?;
    check(&report)?;
    let id = identity.cluster.clone();
    let now = millis(state.now());
    let is_known = report.facts.is_empty() && report.base.as_ref() == Some(&reports.etag(&cluster));
    if is_known {
        state.store.facts_reported(&id, FactSource::Agent, now);
        return Ok(Json(ReportReceipt { etag: report.base }));
    }
    reports.forget_deleted(&state);
    let (changed, order) = (id.clone(), Arc::clone(&reports));
    let taken = state.store.change(Actor::Agent(id.clone()), move |draft| {
        if order.is_late(&changed, &report) {
            let detail = "a newer report of the same agent was accepted".to_owned();
            return Err(RegistryError::Overruled(detail));
        }
        let before = draft.cluster(&changed).ok_or(StoreError::Missing)?;
        let mut cluster = before.value.clone();
        if apply(&mut cluster.dynamic_facts, &report, now)?.is_none() {
            return Ok(None);
        }
        let etag = etag(&cluster.dynamic_facts);
        draft.put_cluster(cluster)?;
        Ok(Some(etag))
    });
    let etag = taken.await?.value;
    if etag.is_some() {
        state.store.facts_reported(&id, FactSource::Agent, now);
    }
    Ok(Json(ReportReceipt { etag }))
}
