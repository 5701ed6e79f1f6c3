//! `fairlead tenant` and its subcommands.

mod describe;

use fairlead_api::{
    Code, Failure, TenantId, percent,
    resources::{CreateTenant, List, Tenant},
};
use fairlead_client::{
    Environment, HubClient, HubError,
    documents::{Document, DocumentKind},
    query_of,
};

use crate::{
    apply, args, bulk,
    confirm::confirm,
    edit, fields,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
    watch::{self, Row, Wakes, WatchScope},
};

pub(crate) fn run(command: args::TenantArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::TenantArgs::Create { name, id, output } => {
                let id = id.map_or_else(|| id_from(&name), Ok)?;
                let create = CreateTenant {
                    id: Some(id.to_string()),
                    display_name: Some(name),
                    ..CreateTenant::default()
                };
                let tenant: Tenant = hub.post("/tenants", &create).await?;
                show(&output.output, &tenant)
            }
            args::TenantArgs::List(asked) => list(&hub, &asked).await,
            args::TenantArgs::Get { id, watch, output } => {
                let path = path_of(&id);
                let tenant = find(&hub, &id).await?;
                if watch {
                    let rows = async |_| {
                        let found = hub.get_optional::<Tenant>(&path).await?;
                        Ok::<Vec<_>, HubError>(found.iter().map(row).collect())
                    };
                    return watch::watch(
                        &hub,
                        &output.output,
                        columns(),
                        WatchScope::One,
                        Wakes::Changes,
                        rows,
                    )
                    .await;
                }
                show(&output.output, &tenant)
            }
            args::TenantArgs::Describe { id } => Box::pin(describe::run(&hub, &id)).await,
            args::TenantArgs::Apply(args) => apply::run(&hub, DocumentKind::Tenant, args).await,
            args::TenantArgs::Edit { id, yes } => {
                let path = path_of(&id);
                edit::run(&hub, DocumentKind::Tenant, &path, yes, environment).await
            }
            args::TenantArgs::Set {
                id,
                fields,
                dry_run,
                yes,
            } => {
                let tenant = find(&hub, &id).await?;
                let document = Document {
                    kind: DocumentKind::Tenant,
                    id: tenant.id.to_string(),
                    tenant: None,
                    fields: fields::of_tenant(*fields)?,
                };
                apply::amend(&hub, document, dry_run, yes).await
            }
            args::TenantArgs::Delete { ids, cascade, yes } => {
                delete(&hub, &ids, cascade, yes).await
            }
        }
    })?
}

/// API path of a tenant; the id may omit its prefix.
fn path_of(id: &str) -> String {
    let whole = TenantId::from_name(id).map_or_else(|_| id.to_owned(), |id| id.to_string());
    format!("/tenants/{}", percent::encode(&whole))
}

/// Reads a tenant.
///
/// # Errors
/// `FL-4107` for an unknown id.
async fn find(hub: &HubClient, id: &str) -> Result<Tenant, Failure> {
    let found = hub.get(&path_of(id)).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) => {
            Failure::because(Code::NotFound, format_args!("the tenant {id:?}"))
                .next("List the tenants with `fairlead tenant list`.")
        }
        other => other.into(),
    })
}

/// Derives an id from a display name.
fn id_from(name: &str) -> Result<TenantId, Failure> {
    TenantId::from_name(name).map_err(|error| {
        let failure = Failure::because(
            Code::Invalid,
            format_args!("no id can be derived from the name {name:?}: {error}"),
        );
        failure.next("Choose an id with `--id`; the name may be any text.")
    })
}

/// Deletes tenants, after checking that all of them exist.
async fn delete(hub: &HubClient, ids: &[String], cascade: bool, yes: bool) -> Result<(), Failure> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for id in ids {
        let tenant = find(hub, id).await?;
        if !tenants.iter().any(|it| it.id == tenant.id) {
            tenants.push(tenant);
        }
    }
    let with = match cascade {
        true => " with all clusters and the tenants below",
        false => "",
    };
    let named = tenants
        .iter()
        .map(|it| format!("{} ({})", it.id, it.display_name));
    let named = named.collect::<Vec<_>>().join(", ");
    let noun = match tenants.len() {
        1 => "tenant",
        _ => "the tenants",
    };
    confirm(
        yes,
        &format!("This deletes {noun} {named}{with}. Continue?"),
    )?;
    let mut deleted = bulk::Outcome::default();
    for tenant in &tenants {
        let path = format!("/tenants/{}?cascade={cascade}", tenant.id);
        let done = hub.delete(&path).await;
        if deleted.add("deleted", tenant.id.as_str(), done)?.is_break() {
            break;
        }
    }
    deleted.end("deleted", tenants.len())
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
            Ok::<Vec<_>, HubError>(tenants.iter().map(row).collect())
        };
        let scope = match asked.filters() {
            true => WatchScope::Matching("/tenants"),
            false => WatchScope::All,
        };
        return watch::watch(hub, format, columns(), scope, Wakes::Changes, rows).await;
    }
    let tenants = List {
        items: fetch().await?,
    };
    Ok(output::show_list(
        format,
        &tenants,
        "tenants",
        &columns(),
        cells,
    )?)
}

fn columns() -> [TableColumn; 6] {
    [
        TableColumn::id("NAME").spare(2),
        TableColumn::key("ID"),
        TableColumn::id("BELOW").spare(1),
        TableColumn::word("AGE").spare(3),
        TableColumn::text("REPOSITORY").wide(),
        TableColumn::word("CREATED").wide(),
    ]
}

fn cells(tenant: &Tenant) -> [Cell; 6] {
    let above = tenant.tenant_ref.as_ref().map(TenantId::as_str);
    let repository = tenant.git_repo.as_ref();
    let url = repository.and_then(|it| it.repo.url.as_deref());
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

fn show(format: &OutputFormat, tenant: &Tenant) -> Result<(), Failure> {
    Ok(output::show(format, tenant, |tenant| {
        output::table(format, &columns(), [cells(tenant)])
    })?)
}
