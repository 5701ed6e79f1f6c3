//! `fairlead access`: roles for a time, and their decisions.

use fairlead_api::{
    Failure, percent,
    resources::{AccessComment, AccessRequest, AccessState, CreateAccessRequest, List, Role},
};
use fairlead_client::{Environment, HubClient, lookup::id_of, query_of};

use crate::{
    args,
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

const REQUESTS_PATH: &str = "/v1/access-requests";
const EMERGENCY_PATH: &str = "/v1/break-glass";

pub(crate) fn run(command: args::AccessArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::AccessArgs::Request { role, wish } => {
                ask(&hub, REQUESTS_PATH, Some(role), wish).await
            }
            args::AccessArgs::BreakGlass { role, wish } => {
                ask(&hub, EMERGENCY_PATH, role, wish).await
            }
            args::AccessArgs::List { state, output } => {
                let query = query_of([("state", state.map(AccessState::as_str))]);
                let found: List<AccessRequest> =
                    hub.get(&format!("{REQUESTS_PATH}?{query}")).await?;
                let (format, name) = (&output.output, "access requests");
                Ok::<_, Failure>(output::show_list(format, &found, name, &columns(), cells)?)
            }
            args::AccessArgs::Approve(decision) => decide(&hub, "approve", decision).await,
            args::AccessArgs::Deny(decision) => decide(&hub, "deny", decision).await,
            args::AccessArgs::Revoke(decision) => decide(&hub, "revoke", decision).await,
            args::AccessArgs::Review(decision) => decide(&hub, "review", decision).await,
        }
    })?
}

async fn ask(
    hub: &HubClient,
    path: &str,
    role: Option<Role>,
    wish: args::AccessWish,
) -> Result<(), Failure> {
    let asked = CreateAccessRequest {
        cluster: id_of(hub, &wish.cluster).await?,
        role,
        namespaces: wish.namespaces.into_iter().map(String::from).collect(),
        duration_seconds: wish.lifetime.map(|it| it.0.as_secs()),
        reason: wish.reason,
    };
    let made: AccessRequest = hub.post(path, &asked).await?;
    Ok(output::show(&wish.output.output, &made, described)?)
}

async fn decide(
    hub: &HubClient,
    act: &str,
    decision: args::AccessDecisionArgs,
) -> Result<(), Failure> {
    let path = format!("{REQUESTS_PATH}/{}/{act}", percent::encode(&decision.id));
    let comment = AccessComment {
        comment: decision.comment,
    };
    let done: AccessRequest = hub.post(&path, &comment).await?;
    Ok(output::print(&described(&done))?)
}

/// One line with the state, and one with the next step.
fn described(request: &AccessRequest) -> String {
    let AccessRequest {
        id, role, cluster, ..
    } = request;
    let namespaces = match request.namespaces.is_empty() {
        true => String::new(),
        false => format!(", namespaces {}", request.namespaces.join(", ")),
    };
    let state = match (request.state, request.emergency, &request.reviewed) {
        (_, true, Some(review)) => format!("reviewed by {}", review.by),
        (state, _, _) => state.to_string(),
    };
    let next = match (request.state, request.emergency) {
        (AccessState::Pending, _) => {
            format!("An admin of the tenant approves it: fairlead access approve {id}\n")
        }
        (_, true) if request.reviewed.is_none() => {
            format!("An admin of the tenant reviews it: fairlead access review {id}\n")
        }
        _ => String::new(),
    };
    format!(
        "{id}: {role} in {cluster}{namespaces} for {}, {}: {state}.\n{next}",
        request.requester,
        time_of(request)
    )
}

/// Time from the approval to the end.
fn time_of(request: &AccessRequest) -> String {
    match request.duration_seconds {
        hours if hours % 3600 == 0 => format!("{}h", hours / 3600),
        minutes if minutes % 60 == 0 => format!("{}m", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}

fn columns() -> [TableColumn; 10] {
    [
        TableColumn::key("ID"),
        TableColumn::word("STATE"),
        TableColumn::id("REQUESTER"),
        TableColumn::id("CLUSTER"),
        TableColumn::word("ROLE"),
        TableColumn::word("FOR"),
        TableColumn::text("REASON").spare(1),
        TableColumn::word("ENDS IN"),
        TableColumn::id("DECIDED BY"),
        TableColumn::word("AGE").wide(),
    ]
}

fn cells(request: &AccessRequest) -> [Cell; 10] {
    let role = match request.namespaces.is_empty() {
        true => request.role.to_string(),
        false => format!("{} ({})", request.role, request.namespaces.join(",")),
    };
    let acts = [&request.revoked, &request.denied, &request.approved];
    let decided = acts.into_iter().flatten().next();
    let decided = match request.emergency && request.revoked.is_none() {
        true => "break-glass".to_owned(),
        false => decided.map_or_else(String::new, |it| it.by.clone()),
    };
    let ends = request
        .until
        .filter(|_| request.state == AccessState::Active);
    [
        request.id.clone().into(),
        request.state.to_string().into(),
        request.requester.clone().into(),
        request.cluster.to_string().into(),
        role.into(),
        time_of(request).into(),
        request.reason.clone().into(),
        ends.map_or_else(|| Cell::from(""), Cell::Until),
        decided.into(),
        Cell::Since(request.created),
    ]
}
