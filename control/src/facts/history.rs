//! What facts were: of one cluster at a time or between two, and in which clusters one has changed.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use fairlead_api::{Code, facts::PastFact, resources::List};
use fairlead_gateway::Caller;
use serde::Deserialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::show::time;
use crate::{
    hub::Hub,
    registry::visible,
    reply::{Answer, Refused, Who},
    store::{FactVersion, Span, View, millis},
};

/// How many are answered where nobody says otherwise.
const LIMIT: u32 = 1000;
/// What is read of the store at once.
const PAGE: u32 = 1000;
/// A search for changes that others' clusters fill goes on for so many pages.
const PAGES: usize = 200;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    fact: Option<String>,
    at: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<u32>,
}

type AskedOf = Result<Query<Asked>, QueryRejection>;

impl Asked {
    fn read(asked: AskedOf) -> Answer<Asked> {
        let asked = asked.map_err(|error| Refused::because(Code::Invalid, error.body_text()))?;
        // No fact's name has one, and a database may not be asked for it.
        if asked.fact.as_ref().is_some_and(|fact| fact.contains('\0')) {
            return Err(Refused::because(Code::Invalid, "fact: it has a NUL"));
        }
        Ok(asked.0)
    }

    /// From `from` to `to`, both included.
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

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(LIMIT).clamp(1, crate::store::MAX_PAGE)
    }
}

/// In milliseconds since 1970.
fn moment(name: &str, text: &str) -> Answer<i64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339);
    let moment = moment.map_err(|_| {
        Refused::because(
            Code::Invalid,
            format_args!("{name}: {text:?} is no time of RFC 3339"),
        )
    })?;
    Ok(millis(moment))
}

/// `GET /v1/clusters/{id}/facts/history`: with `at` the facts as they were then, else what became of them, the oldest first.
pub(super) async fn of_cluster(
    State(hub): State<Arc<Hub>>,
    Path(id): Path<String>,
    asked: AskedOf,
    Who(caller): Who,
) -> Answer<Json<List<PastFact>>> {
    let asked = Asked::read(asked)?;
    let at = asked
        .at
        .as_deref()
        .map(|text| moment("at", text))
        .transpose()?;
    let span = asked.span()?;
    if at.is_some() && span != Span::default() {
        let detail = "at goes without from and to";
        return Err(Refused::because(Code::Invalid, detail));
    }
    let cluster = visible(&hub.store.view(), &caller, &id)?;
    let (id, fact) = (&cluster.value.id, asked.fact.as_deref());
    let versions = match at {
        Some(at) => hub.store.facts_at(id, fact, at).await?,
        None => {
            hub.store
                .fact_versions(id, fact, span, asked.limit())
                .await?
        }
    };
    let items = versions.into_iter().map(past).collect();
    Ok(Json(List { items }))
}

/// `GET /v1/facts/{name}/changes`: in which clusters, of those that the caller may see, it has become another one, the latest
/// first.
pub(super) async fn of_fact(
    State(hub): State<Arc<Hub>>,
    Path(name): Path<String>,
    asked: AskedOf,
    Who(caller): Who,
) -> Answer<Json<List<PastFact>>> {
    let asked = Asked::read(asked)?;
    if asked.at.is_some() || asked.fact.is_some() {
        let detail = "it takes from, to and limit";
        return Err(Refused::because(Code::Invalid, detail));
    }
    let limit = usize::try_from(asked.limit()).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let view = hub.store.view();
    each_change(&hub, &view, &caller, &name, asked.span()?, |version| {
        items.push(past(version));
        items.len() < limit
    })
    .await?;
    Ok(Json(List { items }))
}

/// Gives each change of a fact in clusters that the caller may see to `take`, the latest first, until that wants no more.
/// False if there were too many to look at.
pub(super) async fn each_change(
    hub: &Hub,
    view: &View,
    caller: &Caller,
    name: &str,
    mut span: Span,
    mut take: impl FnMut(FactVersion) -> bool,
) -> Answer<bool> {
    for _ in 0..PAGES {
        let mut page = hub.store.facts_changed(name, span, PAGE).await?;
        let is_last = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        let oldest = page.last().map_or(i64::MIN, |version| version.at);
        let newest = page.first().map_or(i64::MIN, |version| version.at);
        if !is_last && oldest < newest {
            // Those of the same millisecond come with the next page, all of them.
            page.retain(|version| version.at > oldest);
        }
        for version in page {
            let is_visible = visible(view, caller, version.cluster.as_str()).is_ok();
            if is_visible && !take(version) {
                return Ok(true);
            }
        }
        if is_last {
            return Ok(true);
        }
        span.until = if oldest < newest {
            oldest
        } else {
            oldest.saturating_sub(1)
        };
    }
    Ok(false)
}

fn past(version: FactVersion) -> PastFact {
    PastFact {
        cluster: version.cluster,
        name: version.name,
        value: version.value,
        dynamic: version.dynamic,
        source: version.source.as_str().to_owned(),
        at: time(version.at),
        observed: time(version.observed),
    }
}
