//! `fairlead cluster steward`.

use fairlead_api::{
    ClusterId, Failure,
    resources::{Cluster, RotateStewardToken, RotatedStewardToken},
};
use fairlead_client::{HubClient, HubError, lookup::among};
use http::Method;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{args, bulk, confirm::confirm, output};

const SECRET_PATH: &str = "api/v1/namespaces/syn/secrets/steward";
const DEPLOYMENT_PATH: &str = "apis/apps/v1/namespaces/syn/deployments/steward";
/// Annotation of `kubectl rollout restart`.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

pub(super) async fn run(hub: &HubClient, command: args::ClusterSteward) -> Result<(), Failure> {
    let args::ClusterSteward::Rotate {
        names,
        older_than,
        print,
        yes,
    } = command;
    let asked = RotateStewardToken {
        older_than_seconds: older_than.map(|it| it.0.as_secs()),
    };
    let visible: Vec<Cluster> = hub.get("/clusters").await?;
    if let Some(name) = print {
        let id = &among(&visible, &name)?.id;
        let rotated = rotate(hub, id, &asked).await?;
        match rotated.secret {
            Some(secret) => output::print(&format!("{secret}\n"))?,
            None => output::note(&format!("The token of {name}'s Steward is younger.")),
        }
        return Ok(());
    }
    let named = names.iter().map(|name| among(&visible, name));
    let named = named.collect::<Result<Vec<&Cluster>, _>>()?;
    let chosen = match named.is_empty() {
        true => visible.iter().collect(),
        false => named,
    };
    let question = format!(
        "This writes a new token into the Secret syn/steward of {} clusters and restarts Steward. Continue?",
        chosen.len()
    );
    confirm(yes, &question)?;
    let mut outcome = bulk::Outcome::default();
    let mut count = 0;
    for cluster in chosen {
        let done = renew(hub, &cluster.id, &asked).await;
        match done {
            // Without names, clusters without Steward are left out.
            Err(HubError::NotFound(_)) if names.is_empty() => {}
            Ok(false) => output::note(&format!("{}: younger, not rotated", cluster.id)),
            done => {
                count += 1;
                let done = done.map(drop);
                if outcome
                    .add("rotated", cluster.id.as_str(), done)?
                    .is_break()
                {
                    break;
                }
            }
        }
    }
    outcome.end("rotated", count)
}

async fn rotate(
    hub: &HubClient,
    id: &ClusterId,
    asked: &RotateStewardToken,
) -> Result<RotatedStewardToken, HubError> {
    hub.post(&format!("/v1/clusters/{id}/steward-token"), asked)
        .await
}

/// Writes a new token through the hub, with the caller's own rights in the cluster; false if the present one is younger.
async fn renew(
    hub: &HubClient,
    id: &ClusterId,
    asked: &RotateStewardToken,
) -> Result<bool, HubError> {
    let rotated = rotate(hub, id, asked).await?;
    let Some(secret) = rotated.secret else {
        return Ok(false);
    };
    let patch = json!({ "stringData": secret.get("stringData") });
    let path = |object: &str| format!("/k8s/clusters/{id}/{object}");
    let merge = async |object: &str, patch: &Value| {
        let sent = hub.send_json(Method::PATCH, &path(object), patch).await;
        // The API server answers in its own form: the next cluster may answer well.
        sent.map_err(|error| {
            let failure = error.failure();
            let cause = format!("{object}: {}", failure.cause);
            HubError::Rejected(Failure::with_cause(failure.code, cause))
        })
    };
    merge(SECRET_PATH, &patch).await?;
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339);
    let annotations = json!({ RESTARTED_AT: now.unwrap_or_default() });
    let template = json!({ "metadata": { "annotations": annotations } });
    let restart = json!({ "spec": { "template": template } });
    merge(DEPLOYMENT_PATH, &restart).await?;
    Ok(true)
}
