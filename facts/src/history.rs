//! History of facts: of one cluster at a time or in a range, and changes of one fact over all
//! clusters.

use std::{fmt, sync::Arc};

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use fairlead_api::{ClusterId, Code, facts::FactHistoryEntry, resources::List};
use fairlead_registry::{FACT_FILTER, visible};
use fairlead_routes::{
    ApiRoutes, InvalidValue, QueryParameter, RouteSpec, Tag, cursor_parameter, next_page,
    reply::{Answer, Authenticated, Path, Rejected},
};
use fairlead_seam::Caller;
use fairlead_store::{FactPlace, FactVersion, MAX_PAGE, Revision, Span, StoreError, View, millis};
use http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::json;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{show::time, state::FactsState};

/// Default number of versions of a cluster's facts: adjacent rows in the database.
const DEFAULT_VERSIONS: u32 = 1000;
/// Default number of changes of one fact: scattered rows in the database.
const DEFAULT_CHANGES: u32 = 100;
/// Number of rows per store read.
const ROWS_PER_READ: u32 = 1000;
/// Maximum number of pages read while other tenants' clusters fill them; the next request
/// continues.
const MAX_PAGES_PER_REQUEST: usize = 200;
/// Databases use signed integers.
const LAST_REVISION: Revision = Revision(i64::MAX as u64);
const INVALID_CURSOR: &str = "cursor: not a cursor of this hub";

pub(super) fn routes() -> ApiRoutes<Arc<FactsState>> {
    let range = || {
        [
            QueryParameter::time("from", "Changes at this time or later"),
            QueryParameter::time("to", "Changes up to this time"),
            // A larger number counts as the largest page.
            QueryParameter::integer("limit", "Maximum number of items", 0..=u32::MAX.into()),
            cursor_parameter(),
        ]
    };
    let fact = json!({ "type": "string", "minLength": 1, "maxLength": 512 });
    // Characters that are impossible in a path are rejected for any name.
    let name = json!({ "type": "string", "pattern": r"^(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]+$" });
    let history = RouteSpec::get(
        Tag::INVENTORY,
        "/v1/clusters/{clusterId}/facts/history",
        "getFactHistory",
        "List the history of a cluster's facts",
    )
    .query([
        QueryParameter::new("fact", FACT_FILTER, fact),
        QueryParameter::time("at", "Facts at this time; excludes from, to and cursor"),
    ])
    .query(range())
    .gives_list::<FactHistoryEntry>(200, "FactHistory");
    let changes = RouteSpec::get(
        Tag::INVENTORY,
        "/v1/facts/{name}/changes",
        "getFactChanges",
        "List the changes of a fact in all clusters",
    )
    .path_parameter("name", name)
    .query(range())
    .gives_list::<FactHistoryEntry>(200, "FactHistory");
    ApiRoutes::new()
        .route(history, of_cluster)
        .route(changes, of_fact)
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct HistoryParams {
    fact: Option<String>,
    at: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

type HistoryQuery = Result<Query<HistoryParams>, QueryRejection>;

impl HistoryParams {
    fn read(params: HistoryQuery) -> Answer<HistoryParams> {
        let params = params.map_err(|error| Rejected::because(Code::Invalid, error.body_text()))?;
        // No fact's name contains NUL, and PostgreSQL rejects it in parameters.
        if params.fact.as_ref().is_some_and(|fact| fact.contains('\0')) {
            return Err(Rejected::because(Code::Invalid, "fact: contains NUL"));
        }
        Ok(params.0)
    }

    /// From `from` to `to`, both inclusive.
    fn span(&self) -> Answer<Span> {
        let all = Span::default();
        let from = self.from.as_deref().map(|text| moment("from", text));
        let to = self.to.as_deref().map(|text| moment("to", text));
        Ok(Span {
            after: from
                .transpose()?
                .map_or(all.after, |from| from.saturating_sub(1)),
            until: to.transpose()?.unwrap_or(all.until),
        })
    }

    fn limit(&self, default: u32) -> u32 {
        self.limit.unwrap_or(default).clamp(1, MAX_PAGE)
    }
}

/// In milliseconds since 1970.
fn moment(name: &str, text: &str) -> Answer<i64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339);
    let moment = moment.map_err(|_| {
        Rejected::because(
            Code::Invalid,
            format_args!("{name}: {text:?} is not an RFC 3339 time"),
        )
    })?;
    Ok(millis(moment))
}

/// `GET /v1/clusters/{id}/facts/history`: with `at` the facts at that time, else their versions,
/// oldest first.
async fn of_cluster(
    State(state): State<Arc<FactsState>>,
    Path(id): Path<String>,
    uri: Uri,
    params: HistoryQuery,
    Authenticated(caller): Authenticated,
) -> Answer<(HeaderMap, Json<List<FactHistoryEntry>>)> {
    let params = HistoryParams::read(params)?;
    let at = params
        .at
        .as_deref()
        .map(|text| moment("at", text))
        .transpose()?;
    let span = params.span()?;
    let cursor = params
        .cursor
        .as_deref()
        .map(HistoryCursor::read)
        .transpose()?;
    if at.is_some() && (span != Span::default() || cursor.is_some()) {
        let detail = "at excludes from, to and cursor";
        return Err(Rejected::because(Code::Invalid, detail));
    }
    let cluster = visible(&state.store.view(), &caller, &id)?;
    let (id, fact) = (&cluster.value.id, params.fact.as_deref());
    let (versions, next) = match at {
        Some(at) => (state.store.facts_at(id, fact, at).await?, None),
        None => {
            version_page(
                &state,
                id,
                fact,
                (span, cursor),
                params.limit(DEFAULT_VERSIONS),
            )
            .await?
        }
    };
    let link = next.map(|next| next_page(&uri, &next.to_string()));
    let items = versions.into_iter().map(past).collect();
    let link = link.transpose()?.unwrap_or_default();
    Ok((link, Json(List { items })))
}

/// Progress within a cluster's history: all before this millisecond, and a number of versions of
/// it.
struct HistoryCursor {
    at: i64,
    versions_sent: u32,
}

impl HistoryCursor {
    fn read(cursor: &str) -> Result<Self, InvalidValue> {
        let read = || {
            let (at, versions_sent) = cursor.split_once('.')?;
            Some(HistoryCursor {
                at: at.parse().ok()?,
                versions_sent: versions_sent.parse().ok().filter(|it| *it < MAX_PAGE)?,
            })
        };
        read().ok_or_else(|| InvalidValue::because(INVALID_CURSOR))
    }
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at, self.versions_sent)
    }
}

/// One page of versions, and the position of the next one.
async fn version_page(
    state: &FactsState,
    id: &ClusterId,
    fact: Option<&str>,
    (mut span, cursor_position): (Span, Option<HistoryCursor>),
    limit: u32,
) -> Result<(Vec<FactVersion>, Option<HistoryCursor>), StoreError> {
    let mut skip = 0;
    if let Some(cursor_position) = cursor_position.filter(|it| it.at > span.after) {
        span.after = cursor_position.at.saturating_sub(1);
        skip = cursor_position.versions_sent;
    }
    // One extra version shows whether there are more.
    let most = MAX_PAGE.min(skip.saturating_add(limit).saturating_add(1));
    let mut found = state.store.fact_versions(id, fact, span, most).await?;
    let length = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let is_all = found.len() < length(most);
    if !is_all {
        found.pop();
    }
    let last = found.last().map_or(i64::MIN, |it| it.at);
    let versions_sent = found.iter().rev().take_while(|it| it.at == last).count();
    let next = HistoryCursor {
        at: last,
        versions_sent: u32::try_from(versions_sent).unwrap_or(u32::MAX),
    };
    let rest = found.split_off(length(skip).min(found.len()));
    Ok((rest, (!is_all).then_some(next)))
}

/// `GET /v1/facts/{name}/changes`: changes of a fact in visible clusters, newest first.
async fn of_fact(
    State(state): State<Arc<FactsState>>,
    Path(name): Path<String>,
    uri: Uri,
    params: HistoryQuery,
    Authenticated(caller): Authenticated,
) -> Answer<(HeaderMap, Json<List<FactHistoryEntry>>)> {
    let params = HistoryParams::read(params)?;
    if params.at.is_some() || params.fact.is_some() {
        let detail = "only from, to, limit and cursor are allowed";
        return Err(Rejected::because(Code::Invalid, detail));
    }
    let limit = params.limit(DEFAULT_CHANGES);
    let walk = Walk {
        span: params.span()?,
        behind: params.cursor.as_deref().map(place_of).transpose()?,
        // One extra version shows whether there are more.
        wanted: limit.saturating_add(1),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let view = state.store.view();
    let cut = each_change(&state, &view, &caller, &name, walk, |version| {
        let takes = items.len() < limit;
        if takes {
            items.push(past(version));
        }
        takes
    });
    let link = cut.await?.map(|place| next_page(&uri, &cursor_of(&place)));
    let link = link.transpose()?.unwrap_or_default();
    Ok((link, Json(List { items })))
}

fn cursor_of(place: &FactPlace) -> String {
    let dynamic = u8::from(place.dynamic);
    format!(
        "{}.{}.{dynamic}.{}",
        place.at, place.cluster, place.revision
    )
}

fn place_of(cursor: &str) -> Result<FactPlace, InvalidValue> {
    let read = || {
        let mut parts = cursor.split('.');
        let place = FactPlace {
            at: parts.next()?.parse().ok()?,
            cluster: parts.next()?.parse().ok()?,
            dynamic: match parts.next()? {
                "0" => false,
                "1" => true,
                _ => return None,
            },
            revision: parts
                .next()?
                .parse()
                .ok()
                .filter(|it| *it <= LAST_REVISION)?,
        };
        parts.next().is_none().then_some(place)
    };
    read().ok_or_else(|| InvalidValue::because(INVALID_CURSOR))
}

/// Range and start of a walk over a fact's changes.
pub(super) struct Walk {
    pub(super) span: Span,
    pub(super) behind: Option<FactPlace>,
    /// Approximate number of changes.
    pub(super) wanted: u32,
}

/// Passes each change of a fact in visible clusters to `take`, newest first, until it returns
/// false.
///
/// Returns the position to continue from, or `None` at the end. Also stops after too many hidden
/// changes.
pub(super) async fn each_change(
    state: &FactsState,
    view: &View,
    caller: &Caller,
    name: &str,
    walk: Walk,
    mut take: impl FnMut(FactVersion) -> bool,
) -> Answer<Option<FactPlace>> {
    let Walk {
        span,
        mut behind,
        wanted,
    } = walk;
    // If the first page does not suffice, hidden clusters fill it.
    let first = wanted.clamp(1, ROWS_PER_READ);
    for number in 0..MAX_PAGES_PER_REQUEST {
        let size = if number == 0 { first } else { ROWS_PER_READ };
        let page = state.store.facts_changed(name, span, behind.as_ref(), size);
        let page = page.await?;
        let is_last = page.len() < usize::try_from(size).unwrap_or(usize::MAX);
        for version in page {
            let place = FactPlace::from(&version);
            let is_visible = visible(view, caller, version.cluster.as_str()).is_ok();
            if is_visible && !take(version) {
                return Ok(behind);
            }
            behind = Some(place);
        }
        if is_last {
            return Ok(None);
        }
    }
    Ok(behind)
}

fn past(version: FactVersion) -> FactHistoryEntry {
    FactHistoryEntry {
        cluster: version.cluster,
        name: version.name,
        value: version.value,
        dynamic: version.dynamic,
        source: version.source,
        at: time(version.at),
        observed: time(version.observed),
    }
}
