//! `/inventory`, as in Lieutenant: posted values become facts; a subset of InfluxQL queries the
//! history of facts in visible clusters. The response has InfluxDB's format inside Lieutenant's.

mod answer;

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Query, State, rejection::QueryRejection},
};
use fairlead_api::{
    Code,
    facts::{
        FactName, Inventory, MAX_FACT_BYTES, MAX_FACT_DEPTH, MAX_FACTS, MAX_TOTAL_FACT_BYTES, depth,
    },
    influxql::{self, Condition},
    resources::Role,
};
use fairlead_seam::{Caller, Principal};
use fairlead_store::{
    FactVersion, Span, StoreError, View, millis,
    model::{Cluster, Fact, FactSource},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use fairlead_registry::{RegistryError, allow_in, by, visible};
use fairlead_routes::{
    ApiRoutes, InvalidValue, QueryParameter, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Rejected},
};

use crate::{
    history::{Walk, each_change},
    influx::{self, Influx},
    state::FactsState,
};
use answer::HistoryPoint;

/// Maximum number of points per query.
const MAX_POINTS: usize = 50_000;
/// Maximum size of these points, in bytes of JSON.
const MAX_POINT_BYTES: usize = 16 * 1024 * 1024;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Store an inventory of a cluster.
const STORE_INVENTORY: Right = Right::new(
    "storing an inventory",
    &[Role::Admin, Role::Operator, Role::Tenant, Role::Cluster],
);

pub(super) fn routes() -> ApiRoutes<Arc<FactsState>> {
    const TAG: Tag = Tag::INVENTORY;
    const PATH: &str = "/inventory";
    let parameters = [
        QueryParameter::text("q", "InfluxQL query string"),
        QueryParameter::choice(
            "backend",
            "Backend that answers the query; by default the one configured with `--influx-query`",
            &["hub", "influxdb"],
        ),
    ];
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                PATH,
                "queryInventory",
                "Query the history of facts in a subset of InfluxQL",
            )
            .query(parameters)
            .gives::<Inventory>(200),
            query,
        )
        .route(
            RouteSpec::post(TAG, PATH, "updateInventory", "Store the facts of a cluster")
                .needs(&[STORE_INVENTORY])
                .takes::<Inventory>()
                .gives_nothing(201),
            store,
        )
}

/// Each entry of `inventory` becomes a fact, `null` removes one. Facts reported by the cluster's
/// agent are kept.
async fn store(
    State(state): State<Arc<FactsState>>,
    Extension(principal): Extension<Principal>,
    JsonBody(sent): JsonBody<Inventory, MAX_TOTAL_FACT_BYTES>,
) -> Answer<StatusCode> {
    for (name, value) in &sent.inventory {
        check(name, value)?;
    }
    let caller = principal.caller().await?;
    let view = state.store.view();
    let known = visible(&view, &caller, &sent.cluster)?;
    let caller = allow_in(&view, &caller, &known.value, STORE_INVENTORY)?;
    let id = known.value.id.clone();
    let now = millis(state.now());
    let changed = state.store.change(by(&caller), {
        let id = id.clone();
        move |draft| {
            let before = draft.cluster(&id).ok_or(StoreError::Missing)?;
            let mut cluster = before.value.clone();
            for (name, value) in &sent.inventory {
                put(&mut cluster, name, value, now)?;
            }
            if cluster.dynamic_facts.len() > 2 * MAX_FACTS {
                return Err(InvalidValue::because("the cluster has too many facts").into());
            }
            draft.put_cluster(cluster)?;
            Ok::<_, RegistryError>(())
        }
    });
    changed.await?;
    state.store.facts_reported(&id, FactSource::Inventory, now);
    Ok(StatusCode::CREATED)
}

fn check(name: &str, value: &Value) -> Result<(), InvalidValue> {
    let invalid = |detail: String| InvalidValue::because(detail);
    name.parse::<FactName>()
        .map_err(|error| invalid(format!("{name:?}: {error}")))?;
    if depth(value) > MAX_FACT_DEPTH || value.to_string().len() > MAX_FACT_BYTES {
        return Err(invalid(format!(
            "{name} is more than {MAX_FACT_DEPTH} levels deep, or longer than {MAX_FACT_BYTES} bytes"
        )));
    }
    Ok(())
}

fn put(cluster: &mut Cluster, name: &str, value: &Value, now: i64) -> Result<(), RegistryError> {
    let before = cluster.dynamic_facts.get(name);
    if before.is_some_and(|before| before.value == *value) {
        return Ok(());
    }
    if before.is_some_and(|before| before.source == FactSource::Agent) {
        let detail = format!("{name} is reported by the cluster's agent");
        return Err(RegistryError::Overruled(detail));
    }
    if value.is_null() {
        cluster.dynamic_facts.remove(name);
        return Ok(());
    }
    let fact = Fact {
        value: value.clone(),
        source: FactSource::Inventory,
        received: now,
        observed: now,
    };
    cluster.dynamic_facts.insert(name.to_owned(), fact);
    Ok(())
}

#[derive(Deserialize)]
struct InventoryParams {
    q: Option<String>,
    backend: Option<QueryBackend>,
}

/// QueryBackend that answers a query; the default is set by the platform operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum QueryBackend {
    Hub,
    InfluxDb,
}

async fn query(
    State(state): State<Arc<FactsState>>,
    params: Result<Query<InventoryParams>, QueryRejection>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<Value>> {
    let Query(params) =
        params.map_err(|error| Rejected::because(Code::BadRequest, error.body_text()))?;
    let text = params.q.unwrap_or_default();
    if text.contains('\0') {
        return Err(Rejected::because(Code::Invalid, "q: contains NUL"));
    }
    let query = influxql::parse(&text)
        .map_err(|error| Rejected::because(Code::Invalid, format_args!("q: {error}")))?;
    let result = match influx(&state, params.backend)? {
        Some(influx) => influx::query::answer(&state, influx, &caller, &query).await?,
        None => own_answer(&state, &caller, &query).await?,
    };
    let cluster = one_cluster(&query.conditions).unwrap_or_default();
    Ok(Json(
        json!({ "cluster": cluster, "inventory": { "results": [result] } }),
    ))
}

/// InfluxDB, if it should answer.
fn influx(state: &FactsState, backend: Option<QueryBackend>) -> Answer<Option<&Influx>> {
    match (state.influx.as_deref(), backend) {
        (None, Some(QueryBackend::InfluxDb)) => {
            let detail = "backend: this hub has no InfluxDB (`--influx-url`)";
            Err(Rejected::because(Code::Invalid, detail))
        }
        (Some(influx), Some(QueryBackend::InfluxDb)) => Ok(Some(influx)),
        (Some(influx), None) if influx.answers() => Ok(Some(influx)),
        _ => Ok(None),
    }
}

/// Answers from the history of facts in the store.
async fn own_answer(state: &FactsState, caller: &Caller, query: &influxql::Query) -> Answer<Value> {
    let view = state.store.view();
    let now = state.now();
    let edge = |moment: Option<influxql::Moment>| moment.map(|moment| moment.at(now));
    let (from, to) = (edge(query.range.from), edge(query.range.to));
    let all = Span::default();
    let span = Span {
        // Facts have millisecond resolution: round up to the next whole one.
        after: from.map_or(all.after, |from| {
            from.saturating_sub(1).div_euclid(NANOS_PER_MILLI)
        }),
        until: to.map_or(all.until, |to| to.div_euclid(NANOS_PER_MILLI)),
    };
    let wanted = |version: &FactVersion| is_wanted(&query.conditions, &view, version);
    let mut series = Vec::new();
    let mut budget = PointBudget::default();
    for measurement in &query.from {
        let mut points = Vec::new();
        let mut take = |version: FactVersion| {
            if wanted(&version) {
                points.extend(point(&view, version).filter(|point| budget.spend(point)));
            }
            budget.has_capacity()
        };
        let whole = match one_cluster(&query.conditions) {
            Some(id) => of_one(state, &view, caller, (id, measurement), span, &mut take).await?,
            None => {
                let all = Walk {
                    span,
                    behind: None,
                    wanted: u32::MAX,
                };
                let cut = each_change(state, &view, caller, measurement, all, &mut take).await?;
                cut.is_none()
            }
        };
        if !whole || !budget.has_capacity() {
            let detail = "q: matches more than 50,000 versions of facts; narrow the time range, or name a cluster";
            return Err(Rejected::because(Code::Invalid, detail));
        }
        points.sort_by_key(|point| point.at);
        series.extend(answer::answer(query, measurement, points, from));
    }
    Ok(match series.is_empty() {
        true => json!({ "statement_id": 0 }),
        false => json!({ "statement_id": 0, "series": series }),
    })
}

/// Memory budget of one query's points.
struct PointBudget {
    points: usize,
    bytes: usize,
}

impl Default for PointBudget {
    fn default() -> Self {
        PointBudget {
            points: MAX_POINTS,
            bytes: MAX_POINT_BYTES,
        }
    }
}

impl PointBudget {
    fn spend(&mut self, point: &HistoryPoint) -> bool {
        self.points = self.points.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(point.length());
        self.has_capacity()
    }

    fn has_capacity(&self) -> bool {
        self.points > 0 && self.bytes > 0
    }
}

/// The cluster named by the query, if exactly one.
fn one_cluster(conditions: &[Condition]) -> Option<&str> {
    let mut named = conditions
        .iter()
        .filter(|condition| condition.tag == influxql::Tag::Cluster && condition.equals);
    named.next().map(|condition| condition.text.as_str())
}

async fn of_one(
    state: &FactsState,
    view: &View,
    caller: &Caller,
    (id, name): (&str, &str),
    mut span: Span,
    take: &mut impl FnMut(FactVersion) -> bool,
) -> Answer<bool> {
    const ROWS_PER_READ: u32 = 1000;
    // A hidden cluster has no points.
    let Ok(cluster) = visible(view, caller, id) else {
        return Ok(true);
    };
    loop {
        let id = &cluster.value.id;
        let mut page = state
            .store
            .fact_versions(id, Some(name), span, ROWS_PER_READ)
            .await?;
        let is_last = page.len() < usize::try_from(ROWS_PER_READ).unwrap_or(usize::MAX);
        let first = page.first().map_or(i64::MAX, |version| version.at);
        let last = page.last().map_or(i64::MAX, |version| version.at);
        span.after = last;
        if !is_last && first < last {
            // The next page contains all versions of the last millisecond.
            page.retain(|version| version.at < last);
            span.after = last.saturating_sub(1);
        }
        for version in page {
            if !take(version) {
                return Ok(false);
            }
        }
        if is_last {
            return Ok(true);
        }
    }
}

fn is_wanted(conditions: &[Condition], view: &View, version: &FactVersion) -> bool {
    let tenant = view
        .cluster(&version.cluster)
        .map(|it| it.value.tenant.as_str());
    conditions.iter().all(|condition| {
        let tag = match condition.tag {
            influxql::Tag::Cluster => version.cluster.as_str(),
            influxql::Tag::Tenant => tenant.unwrap_or_default(),
            influxql::Tag::Source => version.source.as_str(),
        };
        (tag == condition.text) == condition.equals
    })
}

/// `None` for a removed fact.
fn point(view: &View, version: FactVersion) -> Option<HistoryPoint> {
    let fields = match version.value? {
        Value::Object(object) => object,
        value => serde_json::Map::from_iter([("value".to_owned(), value)]),
    };
    let tenant = view.cluster(&version.cluster)?.value.tenant.clone();
    Some(HistoryPoint {
        at: version.at.saturating_mul(NANOS_PER_MILLI),
        cluster: version.cluster.to_string(),
        tenant: tenant.to_string(),
        source: version.source.as_str(),
        fields,
    })
}
