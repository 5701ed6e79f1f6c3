//! `fairlead sessions`, `fairlead lock`, `fairlead unlock` and `fairlead locks`.

use fairlead_api::{
    Failure, TenantId, percent,
    resources::{
        CreateLock, EndedRequests, List, Lock, LockKind, RequestKind, RunningRequest,
        RunningRequestList,
    },
};
use fairlead_client::{Environment, HubClient, lookup::id_of, query_of};

use crate::{
    args,
    confirm::confirm,
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

pub(crate) fn sessions(
    command: args::SessionsArgs,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::SessionsArgs::List { filters, output } => {
                let query = query(&hub, &filters, None).await?;
                let running: RunningRequestList = hub.get(&format!("/v1/requests?{query}")).await?;
                let format = &output.output;
                let items = List {
                    items: running.items,
                };
                output::show_list(
                    format,
                    &items,
                    "running requests",
                    &session_columns(),
                    session_cells,
                )?;
                for hub in running.incomplete_hubs {
                    output::note(&format!(
                        "Requests at {hub} are missing: it did not answer in time, or has too many."
                    ));
                }
                Ok::<_, Failure>(())
            }
            args::SessionsArgs::Kill {
                id,
                filters,
                reason,
                yes,
            } => {
                let query = query(&hub, &filters, reason.as_deref()).await?;
                let (path, question) = match &id {
                    Some(id) => (
                        format!("/v1/requests/{}?{query}", percent::encode(id)),
                        format!("This ends the request {id}. Continue?"),
                    ),
                    None => (
                        format!("/v1/requests?{query}"),
                        "This ends all matching requests, at all hubs. Continue?".to_owned(),
                    ),
                };
                confirm(yes, &question)?;
                let done: EndedRequests = hub.delete_with_answer(&path).await?;
                output::print(&ended(&done))?;
                for hub in done.incomplete_hubs {
                    output::note(&format!(
                        "Requests at {hub} are not counted: it did not answer in time, or has too many. They end, too."
                    ));
                }
                Ok(())
            }
        }
    })?
}

/// One line with the number of ended requests at all hubs.
fn ended(done: &EndedRequests) -> String {
    let EndedRequests {
        ended, elsewhere, ..
    } = done;
    let requests = match ended + elsewhere {
        1 => "1 request".to_owned(),
        all => format!("{all} requests"),
    };
    match elsewhere {
        0 => format!("Ended {requests}.\n"),
        _ => format!(
            "Ended {requests}: {ended} at this hub, {elsewhere} at others within seconds.\n"
        ),
    }
}

async fn query(
    hub: &HubClient,
    filters: &args::RequestFilters,
    reason: Option<&str>,
) -> Result<String, Failure> {
    let cluster = match &filters.cluster {
        Some(name) => Some(id_of(hub, name).await?.to_string()),
        None => None,
    };
    Ok(query_of([
        ("caller", filters.caller.as_deref()),
        ("token", filters.token.as_deref()),
        ("tenant", filters.tenant.as_ref().map(TenantId::as_str)),
        ("cluster", cluster.as_deref()),
        ("kind", filters.kind.map(RequestKind::as_str)),
        ("reason", reason),
    ]))
}

fn session_columns() -> [TableColumn; 9] {
    [
        TableColumn::key("ID"),
        TableColumn::word("KIND"),
        TableColumn::id("CALLER"),
        TableColumn::id("CLUSTER"),
        TableColumn::word("AGE"),
        TableColumn::text("HUB").wide(),
        TableColumn::word("BYTES IN").wide(),
        TableColumn::word("BYTES OUT").wide(),
        TableColumn::text("REQUEST").spare(1),
    ]
}

fn session_cells(request: &RunningRequest) -> [Cell; 9] {
    let cluster = request.cluster.as_ref();
    let hub = request.hub.as_ref();
    [
        request.id.clone().into(),
        request.kind.to_string().into(),
        request.caller.clone().into(),
        cluster.map_or_else(String::new, ToString::to_string).into(),
        Cell::Since(request.started),
        hub.map_or_else(String::new, ToString::to_string).into(),
        request.bytes_in.to_string().into(),
        request.bytes_out.to_string().into(),
        format!("{} {}", request.method, request.path).into(),
    ]
}

pub(crate) fn lock(args: args::LockArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let kind = LockKind::from(args.kind);
        let path = path(&hub, kind, &args.name).await?;
        let asked = CreateLock {
            reason: args.reason,
            ttl_seconds: args.lifetime.map(|it| it.0.as_secs()),
        };
        let lock: Lock = hub.put(&path, &asked).await?;
        let done = format!("Locked {} {}.\n", lock.kind, lock.name);
        Ok::<_, Failure>(output::print(&done)?)
    })?
}

pub(crate) fn unlock(args: &args::UnlockArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let kind = LockKind::from(args.kind);
        hub.delete(&path(&hub, kind, &args.name).await?).await?;
        let done = format!("Unlocked {kind} {}.\n", args.name);
        Ok::<_, Failure>(output::print(&done)?)
    })?
}

async fn path(hub: &HubClient, kind: LockKind, name: &str) -> Result<String, Failure> {
    let name = match kind {
        LockKind::Cluster => id_of(hub, name).await?.to_string(),
        LockKind::Tenant => {
            TenantId::from_name(name).map_or_else(|_| name.to_owned(), |it| it.to_string())
        }
        LockKind::User | LockKind::Token => name.to_owned(),
    };
    Ok(format!("/v1/locks/{kind}/{}", percent::encode(&name)))
}

pub(crate) fn locks(command: args::LocksArgs, environment: &Environment) -> Result<(), Failure> {
    let args::LocksArgs::List(output) = command;
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let locks: List<Lock> = hub.get("/v1/locks").await?;
        let format = &output.output;
        Ok::<_, Failure>(output::show_list(
            format,
            &locks,
            "locks",
            &lock_columns(),
            lock_cells,
        )?)
    })?
}

fn lock_columns() -> [TableColumn; 6] {
    [
        TableColumn::word("KIND"),
        TableColumn::key("NAME"),
        TableColumn::text("REASON"),
        TableColumn::word("ENDS IN"),
        TableColumn::word("AGE").spare(1),
        TableColumn::id("MADE BY"),
    ]
}

fn lock_cells(lock: &Lock) -> [Cell; 6] {
    [
        lock.kind.to_string().into(),
        lock.name.clone().into(),
        lock.reason.clone().into(),
        lock.until.map_or_else(|| Cell::from(""), Cell::Until),
        Cell::Since(lock.created),
        lock.created_by.clone().into(),
    ]
}
