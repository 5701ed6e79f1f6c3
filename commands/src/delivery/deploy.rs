//! `fairlead deploy`: uploads a folder, shows the plan, writes the bundle, and follows its rollout.

use std::collections::BTreeSet;

use fairlead_api::{
    ClusterId, Code, Failure,
    delivery::{Bundle, BundleStatus, Plan, PutBundle},
    percent,
};
use fairlead_client::{Environment, HubClient, Precondition};
use http::Method;

use super::{
    diff,
    document::{Audience, Deploying, send_content},
    folder::size,
    follow::{self, Following},
    plan,
};
use crate::{args, confirm::confirm, output, runtime::block_on};

pub(crate) fn deploy(asked: args::DeployArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(Box::pin(run(&hub, asked)))?
}

async fn run(hub: &HubClient, asked: args::DeployArgs) -> Result<(), Failure> {
    let deploying = Deploying::read(hub, asked.folder, Audience::Narrowed(asked.to)).await?;
    let bundle = &deploying.bundle;
    let body = body(bundle);
    let plan = plan_of(hub, &deploying, &body).await?;
    let connected = plan::connected(hub).await?;
    output::print(&heading(&deploying))?;
    output::print(&plan::text(bundle, &plan, &connected))?;
    if asked.diff {
        let cluster = plan::example(&plan, &connected)?;
        show_difference(hub, &deploying, cluster).await?;
    }
    if asked.dry_run {
        return Ok(());
    }
    confirm(asked.yes, &plan::question(bundle, &plan))?;
    let written = write(hub, &deploying, &body, &plan).await?;
    let before = deploying.before.as_ref().map(|(_, it)| it.generation);
    if before == Some(written.generation) {
        return Ok(output::print(&format!(
            "{} is unchanged: generation {}.\n",
            written.id, written.generation
        ))?);
    }
    output::print(&format!(
        "{} has generation {}.\n",
        written.id, written.generation
    ))?;
    if written.suspended {
        let id = &written.id;
        output::note(&format!(
            "{id} is suspended: nothing is released until `fairlead bundle resume {id}`."
        ));
    }
    let following = Following {
        bundle: written.id.clone(),
        generation: written.generation,
        within: asked.timeout.0,
    };
    if asked.wait {
        return follow::to_the_end(hub, &following).await;
    }
    let id = &written.id;
    output::note(&format!(
        "Follow it with `fairlead rollout status {id} -w`."
    ));
    Ok(())
}

/// One line about the content.
fn heading(deploying: &Deploying) -> String {
    let Deploying {
        before,
        bundle,
        size: (files, bytes),
        ..
    } = deploying;
    let generation = match before {
        None => "new".to_owned(),
        Some((_, known)) => format!("after generation {}", known.generation),
    };
    let files = match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    format!(
        "{} of {} ({generation}): {files}, {}, {}\n",
        bundle.id,
        bundle.tenant,
        size(*bytes),
        bundle.fields.kind
    )
}

/// Body of a bundle for the hub.
fn body(bundle: &Bundle) -> PutBundle {
    PutBundle {
        tenant: bundle.tenant.clone(),
        source: None,
        path: None,
        artifact: bundle.artifact.clone(),
        suspended: None,
        fields: bundle.fields.clone(),
    }
}

/// Plan of the bundle. The content is uploaded if the hub lacks it.
async fn plan_of(
    hub: &HubClient,
    deploying: &Deploying,
    body: &PutBundle,
) -> Result<Plan, Failure> {
    let id = deploying.bundle.id.as_str();
    match plan::of(hub, id, body).await {
        Err(failure) if failure.code == Code::NoSuchArtifact => {
            upload(hub, deploying).await?;
            plan::of(hub, id, body).await
        }
        answer => answer,
    }
}

/// Uploads the content.
///
/// # Errors
/// `FL-4105` if the hub names the content differently.
pub(super) async fn upload(hub: &HubClient, deploying: &Deploying) -> Result<(), Failure> {
    let stored = send_content(hub, deploying).await?;
    let expected = deploying.bundle.artifact.as_ref();
    if expected == Some(&stored.id) {
        return Ok(());
    }
    let expected = expected.map_or("", |it| it.as_str());
    let cause = format!(
        "the hub names the content {}, this command {expected}",
        stored.id
    );
    let next = "Use a command line of the hub's version; `fairlead version` prints it.";
    Err(Failure::because(Code::HubUnreachable, cause).next(next))
}

async fn show_difference(
    hub: &HubClient,
    deploying: &Deploying,
    cluster: ClusterId,
) -> Result<(), Failure> {
    output::note(&format!("comparing with {cluster}"));
    let clusters = BTreeSet::from([cluster]);
    let compared = diff::compare(hub, deploying, clusters, diff::USUAL_DEADLINE).await?;
    Ok(output::print(&diff::text(&compared))?)
}

/// Writes the bundle, under the condition that nobody else has.
async fn write(
    hub: &HubClient,
    deploying: &Deploying,
    body: &PutBundle,
    plan: &Plan,
) -> Result<Bundle, Failure> {
    let internal = |error| Failure::because(Code::Internal, error);
    let body = serde_json::to_value(body).map_err(internal)?;
    let id = &deploying.bundle.id;
    let confirm = plan.confirm.as_ref();
    let confirm = confirm.map(|it| format!("?confirm={}", percent::encode(it.as_str())));
    let path = format!("/v1/bundles/{id}{}", confirm.unwrap_or_default());
    let precondition = match &deploying.before {
        Some((tag, _)) => Precondition::Unchanged(tag),
        None => Precondition::Absent,
    };
    let written = hub.send_conditional(Method::PUT, &path, &body, precondition);
    let written = written.await.map_err(|error| {
        let failure = Failure::from(error);
        match failure.code {
            Code::ChangedMeanwhile | Code::RemovalNotConfirmed => {
                failure.next("Run the command again: it makes a new plan.")
            }
            _ => failure,
        }
    })?;
    let written: BundleStatus = serde_json::from_value(written)
        .map_err(|error| Failure::because(Code::HubUnreachable, error))?;
    Ok(written.bundle)
}
