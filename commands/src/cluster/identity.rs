//! `fairlead cluster identity`.

use fairlead_api::Failure;
use fairlead_client::{HubClient, lookup::find};

use crate::{args, confirm::confirm, output};

pub(super) async fn run(hub: &HubClient, command: args::ClusterIdentity) -> Result<(), Failure> {
    let args::ClusterIdentity::Revoke { name, yes } = command;
    let cluster = find(hub, &name).await?;
    let question = format!(
        "This revokes the identity of {name}'s agent: its sessions end, and it has to enrol again. Continue?"
    );
    confirm(yes, &question)?;
    let id = &cluster.id;
    hub.delete(&format!("/v1/clusters/{id}/identity")).await?;
    Ok(output::print(&format!(
        "Revoked the identity of {name}'s agent. Enrol it again: fairlead cluster token renew {id}\n"
    ))?)
}
