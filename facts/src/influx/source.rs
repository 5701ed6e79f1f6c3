//! Source of the feed: all current facts, then the changes from the log. If the log no longer
//! covers the position, all facts again.

use std::io;

use fairlead_api::{ClusterId, TenantId};
use fairlead_store::{
    Change, FactVersion, Kind, Operation, Record, Revision, Store, StoreError, View, millis,
    model::Cluster,
};
use serde_json::Value;
use tracing::warn;

use crate::influx::{
    batch::{LineBatch, MAX_BYTES, Packer},
    line::{LinePoint, line},
};

/// Number of log lines per read.
const LINES_PER_READ: u32 = 100;
/// Number of clusters per read.
const CLUSTERS_PER_READ: usize = 100;

/// Progress of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// All current facts of clusters after this one; then the changes since.
    Whole {
        behind: Option<ClusterId>,
        since: Revision,
    },
    /// Changes since.
    Since(Revision),
}

/// The next batches.
#[derive(Debug)]
pub(super) struct NextBatches {
    pub(super) batches: Vec<LineBatch>,
    /// Position once these are safe.
    pub(super) position: Position,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BatchReadError {
    #[error("reading the change log failed")]
    Store(#[from] StoreError),
    #[error("compressing lines failed")]
    Pack(#[from] io::Error),
}

impl Position {
    pub(super) fn whole(store: &Store) -> Self {
        Position::Whole {
            behind: None,
            since: store.view().revision(),
        }
    }

    /// Revision to resume from, once all current facts were read.
    pub(super) fn since(&self) -> Option<Revision> {
        match self {
            Position::Whole { .. } => None,
            Position::Since(revision) => Some(*revision),
        }
    }
}

/// About one batch after `position`; `None` if there is nothing.
///
/// # Errors
/// [`BatchReadError`]
pub(super) async fn take(
    store: &Store,
    position: &Position,
) -> Result<Option<NextBatches>, BatchReadError> {
    match position {
        Position::Whole { behind, since } => {
            Ok(Some(of_clusters(&store.view(), behind.as_ref(), *since)?))
        }
        Position::Since(revision) => since(store, *revision).await,
    }
}

fn of_clusters(
    view: &View,
    behind: Option<&ClusterId>,
    since: Revision,
) -> Result<NextBatches, BatchReadError> {
    let mut packer = Packer::default();
    let mut last = None;
    let rest = view.clusters();
    let rest = rest.skip_while(|it| behind.is_some_and(|behind| it.value.id <= *behind));
    for cluster in rest.take(CLUSTERS_PER_READ) {
        add_facts(&mut packer, cluster)?;
        last = Some(cluster.value.id.clone());
        if packer.pending_bytes() >= MAX_BYTES {
            break;
        }
    }
    packer.close()?;
    Ok(NextBatches {
        batches: packer.done,
        position: match last {
            None => Position::Since(since),
            behind => Position::Whole { behind, since },
        },
    })
}

/// Uses the time of arrival of each fact.
fn add_facts(packer: &mut Packer, cluster: &Record<Cluster>) -> io::Result<()> {
    let about = &cluster.value;
    for (name, fact) in about.facts.iter().chain(&about.dynamic_facts) {
        let point = LinePoint {
            name,
            cluster: &about.id,
            tenant: Some(&about.tenant),
            source: fact.source,
            at: fact.received,
            value: &fact.value,
        };
        if let Some(line) = line(&point) {
            packer.add(line, point.at)?;
        }
    }
    Ok(())
}

async fn since(store: &Store, mut since: Revision) -> Result<Option<NextBatches>, BatchReadError> {
    let begin = since;
    // The log may contain another hub's commit before this hub has applied it; until then it would
    // count as its own.
    let known = store.view().revision();
    let mut packer = Packer::default();
    while since < known && packer.pending_bytes() < MAX_BYTES {
        let mut page = match store.changes(since, LINES_PER_READ).await {
            Err(StoreError::Compacted { oldest }) if since == begin => {
                warn!(%since, %oldest, "change log too short; writing current facts to InfluxDB, versions in between are skipped");
                return Ok(Some(NextBatches {
                    batches: Vec::new(),
                    position: Position::whole(store),
                }));
            }
            // Packed lines are sent first.
            Err(StoreError::Compacted { .. }) => break,
            page => page?,
        };
        page.changes.retain(|change| change.revision <= known);
        add_changes(&mut packer, store, &page.changes).await?;
        since = page.revision.min(known);
    }
    packer.close()?;
    let has_progress = since != begin;
    Ok(has_progress.then_some(NextBatches {
        batches: packer.done,
        position: Position::Since(since),
    }))
}

async fn add_changes(
    packer: &mut Packer,
    store: &Store,
    changes: &[Change],
) -> Result<(), BatchReadError> {
    let of_clusters = changes.iter();
    let of_clusters: Vec<&Change> = of_clusters
        .filter(|it| it.kind == Kind::Cluster && it.operation != Operation::Deleted)
        .collect();
    let versions = match of_clusters.iter().any(|it| touches(it, &FACTS)) {
        true => store.facts_of(changes).await?,
        false => Vec::new(),
    };
    for change in of_clusters {
        if is_moved(change) && !store.is_foreign(change.revision) {
            add_moved(packer, store, change).await?;
        }
        let of_it =
            |it: &&FactVersion| it.revision == change.revision && it.cluster.as_str() == change.id;
        for version in versions.iter().filter(of_it) {
            add(packer, version, version.at, change.tenant.as_ref())?;
        }
    }
    Ok(())
}

const FACTS: [&str; 2] = ["facts", "dynamicFacts"];

fn touches(change: &Change, fields: &[&str]) -> bool {
    let has = |value: &Option<Value>| {
        let value = value.as_ref();
        value.is_some_and(|it| fields.iter().any(|field| it.get(field).is_some()))
    };
    has(&change.before) || has(&change.after)
}

fn is_moved(change: &Change) -> bool {
    change.operation == Operation::Updated && touches(change, &["tenant"])
}

/// A moved cluster's facts are written under its new tenant from then on.
async fn add_moved(
    packer: &mut Packer,
    store: &Store,
    change: &Change,
) -> Result<(), BatchReadError> {
    let Ok(cluster) = change.id.parse() else {
        return Ok(());
    };
    let at = millis(change.at);
    for version in store.facts_at(&cluster, None, at).await? {
        add(packer, &version, at, change.tenant.as_ref())?;
    }
    Ok(())
}

/// Removals are not points.
fn add(
    packer: &mut Packer,
    version: &FactVersion,
    at: i64,
    tenant: Option<&TenantId>,
) -> io::Result<()> {
    let line = version.value.as_ref().and_then(|value| {
        line(&LinePoint {
            name: &version.name,
            cluster: &version.cluster,
            tenant,
            source: version.source,
            at,
            value,
        })
    });
    line.map_or(Ok(()), |line| packer.add(line, at))
}
