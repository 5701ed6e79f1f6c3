//! `POST /v1/bundles/{id}/plan`: effect of a new state of a bundle on all clusters.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::delivery::{Plan, UntargetPolicy};
use fairlead_bundle::{Generation, Outcome, PlanBuilder, Renderer, plan_hash};
use fairlead_registry::{Precondition, RegistryError, allow_in_tenant, by};
use fairlead_routes::reply::{Answer, Authenticated, OptionalDocument, Path};
use fairlead_seam::Caller;
use fairlead_store::{Draft, View, model::BundleRecord};
use tokio::task::spawn_blocking;

use super::{
    document::BundleDocument,
    known, parsed,
    proposal::{Proposal, ProposedContent},
    put::put_in,
};
use crate::{clusters::with_cluster, confirm::removals, parts::DeliveryParts, rights::DELIVER};

/// State of the bundle before and after a change, in the registry that the caller sees.
struct Compared {
    view: Arc<View>,
    before: Option<Generation>,
    after: Option<Generation>,
}

pub(super) async fn plan(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    OptionalDocument(body): OptionalDocument,
) -> Answer<Json<Plan>> {
    let Some(body) = body else {
        return Ok(Json(plan_of_current(&parts, &caller, &id).await?));
    };
    let id = parsed(&id)?;
    let document = BundleDocument::read(body)?;
    let proposal = Proposal::check(&parts, &caller, id, document).await?;
    let now = parts.clock.now();
    let view = parts.store.view();
    let (who, asked) = (caller.clone(), proposal.clone());
    let any = Precondition::default();
    let confirm = parts.store.attempt(&by(&caller), |draft: &mut Draft| {
        let written = put_in(draft, &who, &any, (&asked, now))?;
        let removals = removals(&written.before, draft, &written.affected);
        Ok::<_, RegistryError>(plan_hash(&removals))
    })?;
    let known = view.bundle(&proposal.id).map(|it| &it.value);
    let before = loaded(&parts, known).await?;
    let after = proposal.content.as_ref().map(|content| {
        let ProposedContent {
            artifact, options, ..
        } = content;
        Generation {
            bundle: proposal.id.clone(),
            tenant: proposal.tenant.clone(),
            artifact: artifact.clone(),
            used: options.used.clone(),
            fields: options.fields.clone(),
        }
    });
    let compared = Compared {
        view,
        before,
        after,
    };
    let mut plan = compare(compared).await?;
    // The list of a plan and the check of the change agree on one name.
    plan.confirm = confirm;
    Ok(Json(plan))
}

/// Targets of the bundle as it is.
async fn plan_of_current(
    parts: &DeliveryParts,
    caller: &Caller,
    id: &str,
) -> Result<Plan, fairlead_api::Failure> {
    let view = parts.store.view();
    let bundle = known(&view, caller, id)?;
    allow_in_tenant(&view, caller, &bundle.value.tenant, DELIVER)?;
    let current = loaded(parts, Some(&bundle.value)).await?;
    let compared = Compared {
        before: current.clone(),
        after: current,
        view: Arc::clone(&view),
    };
    Ok(compare(compared).await?)
}

async fn loaded(
    parts: &DeliveryParts,
    bundle: Option<&BundleRecord>,
) -> Result<Option<Generation>, RegistryError> {
    let Some(bundle) = bundle.filter(|it| !it.deleting) else {
        return Ok(None);
    };
    let Some(newest) = bundle.newest() else {
        return Ok(None);
    };
    Ok(Some(parts.generations.load(bundle, newest).await?))
}

/// Compares all clusters, apart from the threads that answer requests.
async fn compare(compared: Compared) -> Result<Plan, RegistryError> {
    let planned = spawn_blocking(move || plan_between(compared)).await;
    planned.map_err(RegistryError::internal)
}

fn plan_between(compared: Compared) -> Plan {
    let Compared {
        view,
        before,
        after,
    } = compared;
    let Some(any) = after.as_ref().or(before.as_ref()) else {
        return Plan::default();
    };
    let fields = after.as_ref().map(|it| &it.fields);
    let targets = fields.map_or(&[][..], |it| it.targets.as_slice());
    let policy = fields.map_or(UntargetPolicy::Keep, |it| it.on_untarget);
    let mut builder = PlanBuilder::new(any.bundle.clone(), targets, policy);
    let mut before = before.map(Renderer::new);
    let mut after = after.map(Renderer::new);
    for cluster in view.clusters().map(|it| &it.value) {
        with_cluster(&view, cluster, |cluster| {
            let outcome = |renderer: &mut Option<Renderer>| {
                let outcome = renderer.as_mut().map(|it| it.render(cluster));
                outcome.unwrap_or(Outcome::Unmatched)
            };
            let (before, after) = (outcome(&mut before), outcome(&mut after));
            builder.add(cluster.id, &before, &after);
        });
    }
    builder.finish()
}
