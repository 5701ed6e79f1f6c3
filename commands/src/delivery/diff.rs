//! `fairlead diff`: compares a folder with clusters, by a dry run in each of them.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use fairlead_api::{
    ClusterId, Code, Failure,
    delivery::{DiffRequest, ObjectChange, ObjectDiff, Run, RunDiff, RunState},
    resources::List,
};
use fairlead_client::{Environment, HubClient, lookup::id_of};
use tokio::time::Instant;

use super::{
    deploy::upload,
    document::{Audience, Deploying},
    runs,
};
use crate::{
    args,
    output::{self, OutputFormat, plain, short},
    runtime::block_on,
};

/// Longest time for a comparison that is a step of another command.
pub(super) const USUAL_DEADLINE: Duration = Duration::from_secs(5 * 60);

pub(crate) fn diff(asked: args::DiffArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(Box::pin(run(&hub, asked)))?
}

async fn run(hub: &HubClient, asked: args::DiffArgs) -> Result<(), Failure> {
    let mut clusters = BTreeSet::new();
    for name in &asked.clusters {
        clusters.insert(id_of(hub, name).await?);
    }
    let deploying = Deploying::read(hub, asked.folder, Audience::Named).await?;
    let within = asked.timeout.0;
    let runs = match compare(hub, &deploying, clusters.clone(), within).await {
        Err(failure) if failure.code == Code::NoSuchArtifact => {
            upload(hub, &deploying).await?;
            compare(hub, &deploying, clusters, within).await?
        }
        answer => answer?,
    };
    let format: &OutputFormat = &asked.output.output;
    let runs = List { items: runs };
    output::show(format, &runs, |runs| text(&runs.items))?;
    differing(&runs.items).map_or(Ok(()), Err)
}

/// Runs of kind `diff` in these clusters, after their end.
///
/// # Errors
/// `FL-4113` for a run that does not end in time.
pub(super) async fn compare(
    hub: &HubClient,
    deploying: &Deploying,
    clusters: BTreeSet<ClusterId>,
    within: Duration,
) -> Result<Vec<Run>, Failure> {
    let deadline = Instant::now() + within;
    let Deploying { before, bundle, .. } = deploying;
    let request = DiffRequest {
        tenant: before.is_none().then(|| bundle.tenant.clone()),
        clusters: clusters.into_iter().collect(),
        artifact: bundle.artifact.clone(),
        fields: Some(bundle.fields.clone()),
    };
    let path = format!("/v1/bundles/{}/diff", bundle.id);
    let made: List<Run> = hub.post(&path, &request).await?;
    let mut ended = Vec::with_capacity(made.items.len());
    for run in made.items {
        ended.push(runs::until_ended(hub, &run.id, deadline).await?);
    }
    Ok(ended)
}

/// Failure of a comparison that failed, that the API server refused for an object, or that found differences.
fn differing(runs: &[Run]) -> Option<Failure> {
    if let Some(failure) = runs.iter().find_map(runs::failed) {
        return Some(failure);
    }
    if let Some(failure) = runs.iter().find_map(refused) {
        return Some(failure);
    }
    let differs = |it: &&Run| it.diff.as_ref().is_none_or(|diff| !diff.is_empty());
    let count = runs.iter().filter(differs).count();
    let cause = format!("{count} of {} clusters differ from the folder", runs.len());
    (count > 0).then(|| Failure::with_cause(Code::ClustersDiffer, cause))
}

/// Failure of the first object that cannot be compared: it is neither equal nor different.
fn refused(run: &Run) -> Option<Failure> {
    let objects = run.diff.iter().flat_map(|diff| &diff.objects);
    let mut refused = objects.filter_map(|it| Some((&it.object, it.error.as_deref()?)));
    let (object, error) = refused.next()?;
    let cause = format!("{object} in {} cannot be compared: {error}", run.cluster);
    let failure = Failure::with_cause(Code::DiffRefused, plain(&cause));
    Some(failure.next(format!(
        "Correct the object or the rights, and compare again; `fairlead run logs {}` has the answer for each object.",
        run.id
    )))
}

/// Objects that differ, by cluster.
pub(super) fn text(runs: &[Run]) -> String {
    let mut out = String::new();
    for run in runs {
        let found = match (&run.diff, run.state) {
            (Some(diff), RunState::Succeeded) => objects(diff),
            _ => {
                let result = run.result.as_deref().unwrap_or("no result");
                format!("{}: {result}\n", run.state.as_str())
            }
        };
        let cluster = &run.cluster;
        out += &format!("in {cluster}: {found}");
    }
    out
}

/// One line with counts, and lines for each object that differs.
pub(super) fn objects(diff: &RunDiff) -> String {
    let count = |change| diff.objects.iter().filter(|it| it.change == change).count();
    let mut out = format!(
        "{} changed, {} new, {} deleted, {} unchanged\n",
        count(ObjectChange::Update),
        count(ObjectChange::Create),
        count(ObjectChange::Delete),
        diff.unchanged
    );
    for object in &diff.objects {
        out += &one(object);
    }
    if diff.omitted > 0 {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  and {} more", diff.omitted);
    }
    out
}

fn one(object: &ObjectDiff) -> String {
    let sign = match object.change {
        ObjectChange::Create => '+',
        ObjectChange::Update => '~',
        ObjectChange::Delete => '-',
    };
    let mut out = format!("  {sign} {}\n", plain(&object.object));
    for field in &object.fields {
        let path = plain(&field.path);
        let values = match (&field.from, &field.to) {
            (None, None) => "(hidden)".to_owned(),
            (from, to) => {
                let shown = |it: &Option<_>| it.as_ref().map_or("(none)".to_owned(), short);
                format!("{} -> {}", shown(from), shown(to))
            }
        };
        // Writing into a text cannot fail.
        let _ = writeln!(out, "      {path}: {values}");
    }
    if let Some(error) = &object.error {
        let _ = writeln!(out, "      error: {}", plain(error));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(cluster: &str, state: &str, diff: Option<Value>) -> Run {
        serde_json::from_value(json!({
            "id": "run-01KB0000000000000000000000", "cluster": cluster, "bundle": "b-shop", "kind": "diff",
            "origin": "command", "state": state, "attempt": 1, "createdBy": "ann", "logBytes": 0, "diff": diff,
        }))
        .unwrap()
    }

    #[test]
    fn differences_are_listed_by_cluster_and_object() {
        let differs = json!({ "unchanged": 3, "omitted": 2, "objects": [
            { "object": "Deployment shop/web", "change": "update", "fields": [
                { "path": ".spec.replicas", "from": 1, "to": 2 }, { "path": ".spec.paused", "from": true },
            ] },
            { "object": "Secret shop/db", "change": "update", "fields": [{ "path": ".data.password" }] },
            { "object": "Service shop/new", "change": "create", "error": "no kind\u{1b}" },
            { "object": "Service shop/old", "change": "delete" },
        ] });
        let runs = [
            run("c-a", "Succeeded", Some(differs)),
            run("c-b", "Succeeded", Some(json!({ "unchanged": 7 }))),
            run("c-c", "Expired", None),
        ];
        assert_eq!(
            text(&runs),
            "in c-a: 2 changed, 1 new, 1 deleted, 3 unchanged\n\
             \x20 ~ Deployment shop/web\n\
             \x20     .spec.replicas: 1 -> 2\n\
             \x20     .spec.paused: true -> (none)\n\
             \x20 ~ Secret shop/db\n\
             \x20     .data.password: (hidden)\n\
             \x20 + Service shop/new\n\
             \x20     error: no kind \n\
             \x20 - Service shop/old\n\
             \x20 and 2 more\n\
             in c-b: 0 changed, 0 new, 0 deleted, 7 unchanged\n\
             in c-c: Expired: no result\n"
        );
        let [differs, same, expired] = runs;
        assert!(differing(std::slice::from_ref(&same)).is_none());
        let failure = differing(&[differs, same.clone()]).unwrap();
        assert_eq!(failure.code, Code::DiffRefused);
        assert_eq!(
            failure.cause,
            "Service shop/new in c-a cannot be compared: no kind "
        );
        assert!(
            failure
                .next_step()
                .contains("`fairlead run logs run-01KB0000000000000000000000`"),
            "{failure:?}"
        );
        let deleted = json!({ "objects": [{ "object": "Service shop/old", "change": "delete" }] });
        let failure = differing(&[run("c-a", "Succeeded", Some(deleted)), same]).unwrap();
        assert_eq!(failure.code, Code::ClustersDiffer);
        assert!(failure.cause.contains("1 of 2 clusters"), "{failure:?}");
        assert_eq!(differing(&[expired]).unwrap().code, Code::RunFailed);
    }
}
