//! `fairlead vault`: access to Vault of deleted and moved clusters.

use fairlead_api::{Failure, percent, resources::RetiredVaultAccesses};
use fairlead_client::{Environment, HubClient};

use crate::{
    args::VaultArgs,
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
    runtime::block_on,
};

const RETIRED: &str = "/v1/retired-vault-access";

pub(crate) fn run(command: VaultArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            VaultArgs::Retired(asked) => {
                let list: RetiredVaultAccesses = hub.get(RETIRED).await?;
                Ok(output::show(&asked.output, &list, retired)?)
            }
            VaultArgs::Keep { id, yes } => {
                let question = "The cluster can still log in and read its secrets. Continue?";
                confirm(yes, question)?;
                let path = format!("{RETIRED}/{}", percent::encode(&id));
                hub.delete(&path).await?;
                Ok(output::print("Kept the access.\n")?)
            }
        }
    })?
}

fn retired(list: &RetiredVaultAccesses) -> String {
    let columns = [
        TableColumn::key("ID"),
        TableColumn::word("AUTH METHOD"),
        TableColumn::word("POLICY"),
        TableColumn::word("REASON"),
    ];
    let rows = list.items.iter().map(|it| {
        [
            it.id.clone().into(),
            it.names.mount.clone().into(),
            it.names.policy.clone().into(),
            it.reason.clone().unwrap_or_default().into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}
