//! `fairlead tenant`.

mod describe;

use fairlead_api::{
    Failure, TenantId,
    resources::{CreateTenant, List, NewRepo, Tenant},
};
use serde_json::Value;

use crate::{
    apply, args,
    confirm::confirm,
    documents::Kind,
    edit,
    environment::Environment,
    find::{check_tenant, escaped, query_of},
    hub_client::HubClient,
    output::{self, Cell, Column, Format},
    settings::block_on,
    watch::{self, Row, Scope, Wakes},
};

pub(crate) fn run(command: args::Tenant, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::of(environment)?;
    block_on(async {
        match command {
            args::Tenant::Create { name, output } => {
                let create = CreateTenant {
                    id: Some(name.clone()),
                    display_name: Some(name),
                    git_repo: NewRepo::default(),
                };
                let tenant: Tenant = hub.post("/tenants", &create).await?;
                show(&output.output, &tenant)
            }
            args::Tenant::List(asked) => list(&hub, &asked).await,
            args::Tenant::Get { id, watch, output } => {
                let path = format!("/tenants/{}", escaped(&id));
                let tenant: Tenant = hub.get(&path).await?;
                if watch {
                    let rows = async |_| {
                        let found = hub.find::<Tenant>(&path).await?;
                        Ok::<Vec<_>, Failure>(found.iter().map(row).collect())
                    };
                    return watch::watch(
                        &hub,
                        &output.output,
                        columns(),
                        Scope::One,
                        Wakes::Changes,
                        rows,
                    )
                    .await;
                }
                show(&output.output, &tenant)
            }
            args::Tenant::Describe { id } => Box::pin(describe::run(&hub, &id)).await,
            args::Tenant::Apply(args) => apply::run(&hub, Kind::Tenant, args).await,
            args::Tenant::Edit { id, yes } => {
                let path = format!("/tenants/{}", escaped(&id));
                edit::run(&hub, Kind::Tenant, &path, yes, environment).await
            }
            args::Tenant::Delete { id, cascade, yes } => {
                let with = if cascade {
                    " with all its clusters and the tenants below it"
                } else {
                    ""
                };
                confirm(yes, &format!("This deletes tenant {id}{with}. Go on?"))?;
                hub.delete(&format!("/tenants/{}?cascade={cascade}", escaped(&id)))
                    .await?;
                output::print(&format!("Deleted {id}.\n"))
            }
        }
    })?
}

async fn list(hub: &HubClient, asked: &args::TenantList) -> Result<(), Failure> {
    check_tenant(hub, asked.tenant.as_ref()).await?;
    let query = query_of([
        ("tenant", asked.tenant.as_ref().map(TenantId::as_str)),
        ("selector", asked.selector.as_deref()),
        ("text", asked.text.as_deref()),
        ("sort_by", asked.sort_by.as_deref().or(Some("displayName"))),
    ]);
    let path = format!("/tenants?{query}");
    let format = &asked.output.output;
    let fetch = async || hub.get::<Vec<Tenant>>(&path).await;
    if asked.watch {
        let rows = async |_| {
            let tenants = fetch().await?;
            Ok::<Vec<_>, Failure>(tenants.iter().map(row).collect())
        };
        let scope = match asked.filters() {
            true => Scope::Matching("/tenants"),
            false => Scope::All,
        };
        return watch::watch(hub, format, columns(), scope, Wakes::Changes, rows).await;
    }
    let tenants = List {
        items: fetch().await?,
    };
    output::show_list(format, &tenants, "tenants", &columns(), cells)
}

fn columns() -> [Column; 6] {
    [
        Column::text("NAME").spare(2),
        Column::key("ID"),
        Column::id("BELOW").spare(1),
        Column::word("AGE").spare(3),
        Column::text("REPOSITORY").wide(),
        Column::word("CREATED").wide(),
    ]
}

fn cells(tenant: &Tenant) -> [Cell; 6] {
    let above = tenant.more.get("tenantRef").and_then(Value::as_str);
    let repository = tenant.more.get("gitRepo");
    let url = repository.and_then(|it| it.get("url")?.as_str());
    [
        tenant.display_name.clone().into(),
        tenant.id.to_string().into(),
        above.unwrap_or_default().into(),
        Cell::Since(tenant.created),
        url.unwrap_or_default().into(),
        output::time(tenant.created).into(),
    ]
}

fn row(tenant: &Tenant) -> Row<6> {
    Row {
        id: tenant.id.to_string(),
        cells: cells(tenant),
        value: serde_json::to_value(tenant).unwrap_or_default(),
    }
}

fn show(format: &Format, tenant: &Tenant) -> Result<(), Failure> {
    output::show(format, tenant, |tenant| {
        output::table(format, &columns(), [cells(tenant)])
    })
}
