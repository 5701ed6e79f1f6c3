//! `fairlead group`: named selectors of clusters.

use fairlead_api::{
    Code, Failure, GroupId,
    delivery::{GroupStatus, PutGroup},
    resources::List,
};
use fairlead_client::{Environment, HubClient, HubError, documents::DocumentKind, query_of};

use super::removal::{confirmed, joined};
use crate::{
    apply, args,
    cluster::own_tenant,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
};

const GROUPS_PATH: &str = "/v1/groups";

pub(crate) fn group(command: args::GroupArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::GroupArgs::List {
                tenant,
                text,
                output,
            } => {
                check_tenant(&hub, tenant.as_ref()).await?;
                let query = query_of([("tenant", tenant.map(|it| it.to_string())), ("text", text)]);
                let path = format!("{GROUPS_PATH}?{query}");
                let groups: List<GroupStatus> = hub.get(path.trim_end_matches('?')).await?;
                let format = &output.output;
                Ok::<_, Failure>(output::show_list(
                    format,
                    &groups,
                    "groups",
                    &columns(),
                    cells,
                )?)
            }
            args::GroupArgs::Get { id, output } => show(&output.output, &find(&hub, &id).await?),
            args::GroupArgs::Set {
                id,
                selector,
                tenant,
                yes,
                output,
            } => {
                let tenant = match tenant {
                    Some(tenant) => tenant,
                    None => match hub.get_optional::<GroupStatus>(&path_of(&id)).await? {
                        Some(known) => known.group.tenant,
                        None => own_tenant(&hub).await?,
                    },
                };
                let body = PutGroup { tenant, selector };
                let written: GroupStatus = confirmed(yes, async |parameter| {
                    hub.put(&joined(&path_of(&id), parameter), &body).await
                })
                .await?;
                show(&output.output, &written)
            }
            args::GroupArgs::Apply(args) => apply::run(&hub, DocumentKind::Group, args).await,
            args::GroupArgs::Delete { id, yes } => {
                let members = find(&hub, &id).await?.members;
                let question =
                    format!("This deletes {id}; its clusters ({members}) stay. Continue?");
                confirm(yes, &question)?;
                confirmed(yes, async |parameter| {
                    hub.delete(&joined(&path_of(&id), parameter)).await
                })
                .await?;
                Ok(output::print(&format!("Deleted {id}.\n"))?)
            }
        }
    })?
}

fn path_of(id: &GroupId) -> String {
    format!("{GROUPS_PATH}/{id}")
}

async fn find(hub: &HubClient, id: &GroupId) -> Result<GroupStatus, Failure> {
    let found = hub.get(&path_of(id)).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) => Failure::because(Code::NotFound, format_args!("the group {id}"))
            .next("List the groups with `fairlead group list`."),
        other => other.into(),
    })
}

fn show(format: &OutputFormat, group: &GroupStatus) -> Result<(), Failure> {
    let rows = |group: &GroupStatus| output::table(format, &columns(), [cells(group)]);
    Ok(output::show(format, group, rows)?)
}

fn columns() -> [TableColumn; 4] {
    [
        TableColumn::key("ID"),
        TableColumn::id("TENANT"),
        TableColumn::word("CLUSTERS"),
        TableColumn::text("SELECTOR"),
    ]
}

fn cells(status: &GroupStatus) -> [Cell; 4] {
    let group = &status.group;
    [
        group.id.to_string().into(),
        group.tenant.to_string().into(),
        status.members.to_string().into(),
        group.selector.to_string().into(),
    ]
}
