//! `fairlead tenant`.

use fairlead_api::{
    Failure, TenantId,
    resources::{CreateTenant, NewRepo, Tenant},
};
use serde_json::Value;

use crate::{
    apply, args,
    confirm::confirm,
    documents::Kind,
    edit,
    environment::Environment,
    find::{escaped, query_of},
    hub_client::HubClient,
    output,
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
                output::show(&output.output, &tenant, |tenant| {
                    table(std::slice::from_ref(tenant))
                })
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
                        HEADER,
                        Scope::One,
                        Wakes::Changes,
                        rows,
                    )
                    .await;
                }
                output::show(&output.output, &tenant, |tenant| {
                    table(std::slice::from_ref(tenant))
                })
            }
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
    let query = query_of([
        ("tenant", asked.tenant.as_ref().map(TenantId::as_str)),
        ("selector", asked.selector.as_deref()),
        ("text", asked.text.as_deref()),
        ("sort_by", asked.sort_by.as_deref()),
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
        return watch::watch(hub, format, HEADER, scope, Wakes::Changes, rows).await;
    }
    output::show(format, &fetch().await?, |tenants| table(tenants))
}

const HEADER: [&str; 4] = ["ID", "NAME", "BELOW", "CREATED"];

fn cells(tenant: &Tenant) -> [String; 4] {
    let above = tenant.more.get("tenantRef").and_then(Value::as_str);
    [
        tenant.id.to_string(),
        tenant.display_name.clone(),
        above.unwrap_or_default().to_owned(),
        output::time(tenant.created),
    ]
}

fn row(tenant: &Tenant) -> Row<4> {
    Row {
        id: tenant.id.to_string(),
        cells: cells(tenant),
        value: serde_json::to_value(tenant).unwrap_or_default(),
    }
}

fn table(tenants: &[Tenant]) -> String {
    output::table(HEADER, tenants.iter().map(cells))
}
