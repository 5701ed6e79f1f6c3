//! `fairlead tenant`.

use fairlead_api::{
    Failure,
    resources::{CreateTenant, NewRepo, Tenant},
};

use crate::{args, environment::Environment, hub_client::HubClient, output, settings::block_on};

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
            args::Tenant::List(output) => {
                let tenants: Vec<Tenant> = hub.get("/tenants").await?;
                output::show(&output.output, &tenants, |tenants| table(tenants))
            }
            args::Tenant::Get { id, output } => {
                let tenant: Tenant = hub.get(&format!("/tenants/{id}")).await?;
                output::show(&output.output, &tenant, |tenant| {
                    table(std::slice::from_ref(tenant))
                })
            }
            args::Tenant::Delete { id } => {
                hub.delete(&format!("/tenants/{id}")).await?;
                output::print(&format!("Deleted {id}.\n"))
            }
        }
    })?
}

fn table(tenants: &[Tenant]) -> String {
    output::table(
        ["ID", "NAME", "CREATED"],
        tenants.iter().map(|t| {
            [
                t.id.to_string(),
                t.display_name.clone(),
                output::time(t.created),
            ]
        }),
    )
}
