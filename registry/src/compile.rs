//! `/clusters/{id}/compileMeta`, the target of Commodore's reports; and queries over them: clusters
//! with a component below a version, or without a compilation for a number of days.

use std::{cmp::Ordering, sync::Arc};

use axum::{extract::State, response::Response};
use fairlead_api::{
    ClusterId, TenantId,
    resources::{CompileMeta, List, Role},
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, ListPosition, Query, QueryParameter, Right, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, DocumentBody, Path, Requester},
};
use fairlead_store::{Draft, model::Cluster};
use http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;

use crate::{
    document::compile::read as compile_meta,
    error::RegistryError,
    etag::{self, Precondition},
    listing::Listing,
    registry::{Registry, by},
    rights::{allow, allow_in, sees_cluster, visible},
};

/// Upper limit of `staleDays`.
const MAX_STALE_DAYS: u32 = 36_500;

/// Store compile metadata.
const COMPILE: Right = Right::new(
    "storing compile metadata",
    &[Role::Admin, Role::Tenant, Role::Compile],
);

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    let filters = [
        QueryParameter::text("component", "Name of a component"),
        QueryParameter::text(
            "below",
            "Filter: versions of the component lower than this one",
        ),
        QueryParameter::integer(
            "staleDays",
            "Filter: clusters without a compilation for this number of days",
            0..=MAX_STALE_DAYS.into(),
        ),
    ];
    ApiRoutes::new()
        .route(
            RouteSpec::post(
                Tag::CLUSTER,
                "/clusters/{clusterId}/compileMeta",
                "postClusterCompileMeta",
                "Store the metadata of a catalog compilation",
            )
            .needs(&[COMPILE])
            .takes::<CompileMeta>()
            .honours_if_match()
            .gives_nothing(204),
            report,
        )
        .route(
            RouteSpec::get(
                Tag::CLUSTER,
                "/v1/compile-meta",
                "findCompileMeta",
                "List component instances below a version, or clusters without a recent compilation",
            )
            .query(filters)
            .query(Listing::parameters())
            .gives_list::<CompiledComponent<'_>>(200, "CompiledComponents"),
            find,
        )
}

async fn report(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    headers: HeaderMap,
    DocumentBody(body): DocumentBody,
) -> Answer<StatusCode> {
    let meta = compile_meta(body)?;
    let precondition = Precondition::of(&headers);
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, COMPILE)?;
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let record = visible(draft, &who, &id)?;
        precondition.check(Some(record.version))?;
        let mut cluster = record.value.clone();
        cluster.compile_meta = Some(Box::new(meta.clone()));
        Ok::<_, RegistryError>(draft.put_cluster(cluster)?)
    };
    registry.store.change(by(&caller), decide).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One cluster, or one instance of a component in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompiledComponent<'a> {
    cluster: &'a ClusterId,
    tenant: &'a TenantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    last_compile: Option<OffsetDateTime>,
}

impl<'a> CompiledComponent<'a> {
    fn place(&self) -> ListPosition<'a> {
        let instance = self.instance.unwrap_or_default();
        ListPosition(self.cluster.as_str().into(), instance.into())
    }
}

struct CompileFilter {
    component: Option<String>,
    below: Option<String>,
    before: Option<OffsetDateTime>,
}

impl CompileFilter {
    fn of(query: &Query, now: OffsetDateTime) -> Result<Self, InvalidValue> {
        let before = match query.one("staleDays")? {
            None => None,
            Some(days) => {
                let days = days
                    .parse::<u32>()
                    .ok()
                    .filter(|days| *days <= MAX_STALE_DAYS);
                let error = || invalid(format_args!("staleDays: expected 0 to {MAX_STALE_DAYS}"));
                Some(now - Duration::days(i64::from(days.ok_or_else(error)?)))
            }
        };
        let filter = CompileFilter {
            component: query.one("component")?.map(str::to_owned),
            below: query.one("below")?.map(str::to_owned),
            before,
        };
        if filter.below.is_some() && filter.component.is_none() {
            return Err(invalid("below: requires component"));
        }
        Ok(filter)
    }

    fn of_cluster<'a>(&self, cluster: &'a Cluster) -> Vec<CompiledComponent<'a>> {
        let meta = cluster.compile_meta.as_ref();
        let last_compile = meta.and_then(|it| it.last_compile);
        let stale = self
            .before
            .is_none_or(|before| last_compile.is_none_or(|at| at < before));
        if !stale {
            return Vec::new();
        }
        let found = |instance, component, version| CompiledComponent {
            cluster: &cluster.id,
            tenant: &cluster.tenant,
            instance,
            component,
            version,
            last_compile,
        };
        let Some(wanted) = &self.component else {
            return vec![found(None, None, None)];
        };
        let Some(meta) = meta else {
            return Vec::new();
        };
        let of_component = meta.instances.iter().filter_map(|(name, instance)| {
            let component = instance.component.as_deref().unwrap_or(name);
            let version = instance.source.version.as_deref();
            let below = self.below.as_ref().is_none_or(|below| {
                version.is_some_and(|version| compare(version, below) == Some(Ordering::Less))
            });
            (component == wanted && below)
                .then(|| found(Some(name.as_str()), Some(component), version))
        });
        of_component.collect()
    }
}

async fn find(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let listing = Listing::of(&uri)?;
    let filter = CompileFilter::of(listing.query(), registry.now())?;
    allow(&caller, Right::READ)?;
    let view = registry.store.view();
    let scope = listing.scope(&view, &caller);
    let seen = view.clusters().filter(|it| {
        let cluster = &it.value;
        sees_cluster(&view, &caller, cluster) && listing.matches(&scope, cluster)
    });
    let found = seen.flat_map(|it| filter.of_cluster(&it.value));
    let (items, link) = listing.cut(found.map(|it| (it.place(), it)).collect());
    Ok(etag::listed(&headers, &view, &List { items }, link)?)
}

/// Compares by the rules of semantic versioning; `None` for other texts, like a branch.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (ComponentVersion::of(one)?, ComponentVersion::of(other)?);
    let longest = one.numbers.len().max(other.numbers.len());
    let number = |of: &[u64], at: usize| of.get(at).copied().unwrap_or(0);
    let numbers = (0..longest)
        .map(|at| number(&one.numbers, at).cmp(&number(&other.numbers, at)))
        .find(|order| order.is_ne());
    // A release sorts after its pre-releases.
    let pre_release_order = || match (one.pre, other.pre) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => by_identifiers(one, other),
    };
    Some(numbers.unwrap_or_else(pre_release_order))
}

struct ComponentVersion<'a> {
    numbers: Vec<u64>,
    pre: Option<&'a str>,
}

impl<'a> ComponentVersion<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (text, None),
        };
        let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
        Some(ComponentVersion {
            numbers: numbers.ok()?,
            pre,
        })
    }
}

fn by_identifiers(one: &str, other: &str) -> Ordering {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        let order = match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(one), Some(other)) => match (one.parse::<u64>(), other.parse::<u64>()) {
                (Ok(one), Ok(other)) => one.cmp(&other),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => one.cmp(other),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_semver_order() {
        let rising = [
            "v1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "v1.0.1",
            "1.2",
            "v1.10.0+k3s1",
            "v2",
        ];
        for pair in rising.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Some(Ordering::Less), "{pair:?}");
            assert_eq!(
                compare(pair[1], pair[0]),
                Some(Ordering::Greater),
                "{pair:?}"
            );
        }
        assert_eq!(compare("v1.0", "1.0.0"), Some(Ordering::Equal));
        for none in ["master", "", "v", "1.x", "feat/1.2"] {
            assert_eq!(compare(none, "1.0.0"), None, "{none:?}");
        }
    }
}
