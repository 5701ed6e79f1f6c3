//! Lists and single runs for people.

use fairlead_api::{
    ClusterId, RunId,
    delivery::{Run, RunDiff, RunState},
};
use fairlead_delivery_store::{RunFilter, RunRow};
use fairlead_registry::sees_cluster;
use fairlead_routes::{InvalidValue, Query, QueryParameter, invalid};
use fairlead_seam::Caller;
use fairlead_store::{StoreError, View};
use http::Uri;
use serde_json::json;

use super::{Runs, record::StoredRun};

/// Number of runs on a page without the parameter `limit`.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 1000;
/// Number of clusters up to which the database filters by cluster.
const MAX_FILTERED_CLUSTERS: usize = 500;
/// Number of rows per read while rows of other tenants are left out.
const ROWS_PER_READ: u32 = 1000;
/// Number of reads for one page; the next request goes on.
const MAX_READS: usize = 100;

/// Parameters of the list of runs.
pub(super) fn parameters() -> Vec<QueryParameter> {
    let states: Vec<&str> = RunState::ALL.iter().map(|it| it.as_str()).collect();
    vec![
        QueryParameter::cluster("Filter: runs in this cluster"),
        QueryParameter::pattern(
            "bundle",
            "Filter: runs of this bundle",
            "^b-[a-z0-9]([-a-z0-9]{0,59}[a-z0-9])?$",
        ),
        QueryParameter::choice("state", "Filter: runs in this state; repeatable", &states),
        QueryParameter::integer("limit", "Maximum number of runs; default 100", 1..=1000),
        QueryParameter::new(
            "cursor",
            "Cursor of the next page, from the `Link` header",
            json!({ "type": "string", "pattern": "^run-[0-7][0-9A-HJKMNP-TV-Z]{25}$" }),
        ),
    ]
}

/// Requested page of runs.
pub(super) struct RunQuery {
    filter: RunFilter,
    limit: usize,
}

impl RunQuery {
    /// Parses the query.
    ///
    /// # Errors
    /// `FL-4109`
    pub(super) fn of(uri: &Uri) -> Result<Self, InvalidValue> {
        let query = Query::of(uri)?;
        let states = query.all("state").map(|it| {
            it.parse()
                .map_err(|error| invalid(format_args!("state: {error}")))
        });
        let limit = query.one("limit")?.map(|it| {
            let limit = it.parse().ok();
            let limit = limit.filter(|it| (1..=MAX_PAGE_SIZE).contains(it));
            limit.ok_or_else(|| invalid(format_args!("limit: expected 1 to {MAX_PAGE_SIZE}")))
        });
        Ok(RunQuery {
            filter: RunFilter {
                cluster: parsed(&query, "cluster")?,
                clusters: None,
                bundle: parsed(&query, "bundle")?,
                states: states.collect::<Result<_, _>>()?,
                before: parsed(&query, "cursor")?,
            },
            limit: limit.transpose()?.unwrap_or(DEFAULT_PAGE_SIZE),
        })
    }
}

fn parsed<T: std::str::FromStr>(query: &Query, name: &str) -> Result<Option<T>, InvalidValue>
where
    T::Err: std::fmt::Display,
{
    let text = query.one(name)?;
    let value = text.map(|it| {
        it.parse()
            .map_err(|error| invalid(format_args!("{name}: {error}")))
    });
    value.transpose()
}

impl Runs {
    /// Visible runs, newest first, and the cursor of the next page.
    pub(super) async fn page(
        &self,
        (view, caller): (&View, &Caller),
        query: RunQuery,
    ) -> Result<(Vec<Run>, Option<RunId>), StoreError> {
        let RunQuery { mut filter, limit } = query;
        let is_visible = |id: &ClusterId| {
            let cluster = view.cluster(id);
            cluster.is_some_and(|it| sees_cluster(view, caller, &it.value))
        };
        if !caller.is_unlimited() && filter.cluster.is_none() {
            let ids = view.clusters().map(|it| &it.value);
            let ids = ids.filter(|it| sees_cluster(view, caller, it));
            let ids: Vec<ClusterId> = ids.map(|it| it.id.clone()).collect();
            filter.clusters = Some(ids).filter(|it| it.len() <= MAX_FILTERED_CLUSTERS);
        }
        let mut found: Vec<RunRow> = Vec::new();
        for _ in 0..MAX_READS {
            // One extra run shows whether there are more.
            let missing = limit.saturating_add(1).saturating_sub(found.len());
            let size = u32::try_from(missing).unwrap_or(ROWS_PER_READ);
            let size = if found.is_empty() {
                size
            } else {
                ROWS_PER_READ
            };
            let rows = self.parts.runs.list(&filter, size).await?;
            let is_last = rows.len() < usize::try_from(size).unwrap_or(usize::MAX);
            filter.before = rows.last().map(|it| it.id.clone()).or(filter.before);
            found.extend(rows.into_iter().filter(|it| is_visible(&it.cluster)));
            if is_last || found.len() > limit {
                return self.shown_page(found, (limit, None)).await;
            }
        }
        self.shown_page(found, (limit, filter.before)).await
    }

    async fn shown_page(
        &self,
        mut found: Vec<RunRow>,
        (limit, mut next): (usize, Option<RunId>),
    ) -> Result<(Vec<Run>, Option<RunId>), StoreError> {
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().map(|it| it.id.clone());
        }
        let mut runs = Vec::with_capacity(found.len());
        for row in &found {
            runs.push(self.shown(&StoredRun::of(row)?).await?);
        }
        Ok((runs, next))
    }

    /// A run as people read it, without differences.
    pub(super) async fn shown(&self, run: &StoredRun) -> Result<Run, StoreError> {
        let log_bytes = match run.state() {
            RunState::Leased | RunState::Running => Some(self.parts.logs.length(run.id()).await?),
            _ => None,
        };
        Ok(run.shown(self.steps.of(run.id()), log_bytes))
    }

    /// Differences of a run; `None` without any, and once they are no longer kept.
    pub(super) async fn diff_of(&self, run: &StoredRun) -> Result<Option<RunDiff>, StoreError> {
        let json = self.parts.logs.diff(run.id()).await?;
        Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
    }

    /// The run if it exists in a visible cluster.
    pub(super) async fn visible(
        &self,
        (view, caller): (&View, &Caller),
        id: &str,
    ) -> Result<Option<StoredRun>, StoreError> {
        let Ok(id) = id.parse::<RunId>() else {
            return Ok(None);
        };
        let Some(row) = self.parts.runs.get(&id).await? else {
            return Ok(None);
        };
        let cluster = view.cluster(&row.cluster);
        let is_visible = cluster.is_some_and(|it| sees_cluster(view, caller, &it.value));
        is_visible.then(|| StoredRun::of(&row)).transpose()
    }
}
