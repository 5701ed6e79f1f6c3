//! `POST /v1/clusters/{id}/facts/imported`: facts copied from another registry. They fill names
//! without a fact here, are shown as stale, and are replaced by the first report.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use fairlead_api::facts::{ImportedFacts, MAX_IMPORTED_FACTS};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, DocumentBody, Path},
};
use fairlead_store::{
    Draft, millis,
    model::{Fact, FactSource, Facts},
};
use http::StatusCode;
use serde_json::Value;

use crate::{
    document::fields::Fields,
    error::RegistryError,
    registry::{Registry, by},
    rights::{allow_in, visible},
};

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    ApiRoutes::new().route(
        RouteSpec::post(
            Tag::INVENTORY,
            "/v1/clusters/{clusterId}/facts/imported",
            "importFacts",
            "Import facts of another registry; they are stale until a source reports them here",
        )
        .needs(&[Right::WRITE_CLUSTER])
        .takes::<ImportedFacts>()
        .gives_nothing(204),
        take,
    )
}

async fn take(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    DocumentBody(body): DocumentBody,
) -> Answer<StatusCode> {
    let mut given = Fields::of(body)?;
    let facts = given.values("facts")?;
    let facts = facts.ok_or_else(|| invalid("property \"facts\" is missing"))?;
    given.reject_rest()?;
    let view = registry.store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, Right::WRITE_CLUSTER)?;
    let (who, now) = (caller.clone(), millis(registry.now()));
    let decide = move |draft: &mut Draft| {
        let mut cluster = visible(draft, &who, &id)?.value.clone();
        fill(&mut cluster.dynamic_facts, &facts, now);
        if cluster.dynamic_facts.len() > MAX_IMPORTED_FACTS {
            return Err(invalid(format_args!("facts: {MAX_IMPORTED_FACTS} at most")).into());
        }
        draft.put_cluster(cluster)?;
        Ok::<_, RegistryError>(())
    };
    registry.store.change(by(&caller), decide).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Facts reported to this hub take precedence over imported ones.
fn fill(facts: &mut Facts, imported: &BTreeMap<String, Value>, now: i64) {
    for (name, value) in imported {
        let stays = facts
            .get(name)
            .is_some_and(|known| known.source != FactSource::Import || known.value == *value);
        if stays {
            continue;
        }
        let fact = Fact {
            value: value.clone(),
            source: FactSource::Import,
            received: now,
            observed: now,
        };
        facts.insert(name.clone(), fact);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_import_fills_gaps_and_replaces_only_earlier_imports() {
        let fact = |value, source| Fact {
            value,
            source,
            received: 1,
            observed: 1,
        };
        let mut facts = Facts::from([
            ("agents".to_owned(), fact(json!(1), FactSource::Agent)),
            ("old".to_owned(), fact(json!(1), FactSource::Import)),
            ("same".to_owned(), fact(json!(1), FactSource::Import)),
        ]);
        let imported = ["agents", "old", "same", "new"].map(|name| {
            let value = if name == "same" { 1 } else { 2 };
            (name.to_owned(), json!(value))
        });
        fill(&mut facts, &BTreeMap::from(imported), 5);
        let shown = facts
            .iter()
            .map(|(name, it)| json!([name, it.value, it.received]));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                json!(["agents", 1, 1]),
                json!(["new", 2, 5]),
                json!(["old", 2, 5]),
                json!(["same", 1, 1]),
            ]
        );
    }
}
