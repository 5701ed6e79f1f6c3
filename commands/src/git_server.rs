//! `fairlead git-server`: host keys of Git servers, and repositories of deleted owners.

use fairlead_api::{
    Failure, percent,
    resources::{
        ConfirmHostKeys, GitServerList, GitServerStatus, HostKey, HostKeySource,
        RetiredRepositories, ScannedHostKeys,
    },
};
use fairlead_client::{Environment, HubClient};

use crate::{
    args::{self, GitServerArgs},
    confirm::confirm,
    git_credential,
    output::{self, OutputFormat, TableColumn},
    runtime::block_on,
};

const RETIRED: &str = "/v1/retired-repositories";

pub(crate) fn run(command: GitServerArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            GitServerArgs::List(asked) => {
                let list: GitServerList = hub.get("/v1/git-servers").await?;
                let names = |list: &GitServerList| {
                    list.items
                        .iter()
                        .map(|it| format!("{}\n", it.name))
                        .collect()
                };
                let table = |list: &GitServerList| servers(&list.items);
                Ok(output::show_named(&asked.output, &list, names, table)?)
            }
            GitServerArgs::Scan {
                server,
                output: asked,
            } => {
                let found: ScannedHostKeys = hub.get(&keys_of(&server)).await?;
                let names = |found: &ScannedHostKeys| {
                    let keys = found.found.iter();
                    keys.map(|it| format!("{}\n", it.fingerprint)).collect()
                };
                let table = |found: &ScannedHostKeys| keys(&found.found);
                Ok(output::show_named(&asked.output, &found, names, table)?)
            }
            GitServerArgs::Credential(command) => git_credential::run(command, &hub).await,
            GitServerArgs::Confirm(asked) => confirm_keys(&hub, asked).await,
            GitServerArgs::Retired(asked) => {
                let list: RetiredRepositories = hub.get(RETIRED).await?;
                Ok(output::show(&asked.output, &list, retired)?)
            }
            GitServerArgs::Keep { id, yes } => {
                confirm(
                    yes,
                    "The repository stays as it is on its server. Continue?",
                )?;
                hub.delete(&format!("{RETIRED}/{}", percent::encode(&id)))
                    .await?;
                Ok(output::print("Kept the repository.\n")?)
            }
        }
    })?
}

fn keys_of(server: &str) -> String {
    format!("/v1/git-servers/{}/host-keys", percent::encode(server))
}

async fn confirm_keys(hub: &HubClient, asked: args::ConfirmKeysArgs) -> Result<(), Failure> {
    let question = "Agents and compilations will trust these keys. Have you compared them with those of the server's operator?";
    confirm(asked.yes, question)?;
    let body = ConfirmHostKeys {
        fingerprints: asked.fingerprints,
    };
    let status: GitServerStatus = hub.post(&keys_of(&asked.server), &body).await?;
    let names = |status: &GitServerStatus| format!("{}\n", status.name);
    let table = |status: &GitServerStatus| keys(&status.host_keys);
    Ok(output::show_named(
        &asked.output.output,
        &status,
        names,
        table,
    )?)
}

fn servers(servers: &[GitServerStatus]) -> String {
    let columns = [
        TableColumn::key("SERVER"),
        TableColumn::word("HOST KEYS"),
        TableColumn::word("FINGERPRINTS"),
    ];
    let rows = servers.iter().map(|server| {
        let source = match server.source {
            HostKeySource::Settings => "settings",
            HostKeySource::Confirmed => "confirmed",
            HostKeySource::None => "none",
        };
        let keys = server.host_keys.iter();
        let keys: Vec<&str> = keys.map(|it| it.fingerprint.as_str()).collect();
        [
            server.name.clone().into(),
            source.into(),
            keys.join(" ").into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}

fn keys(keys: &[HostKey]) -> String {
    let columns = [TableColumn::key("FINGERPRINT"), TableColumn::word("TYPE")];
    let rows = keys
        .iter()
        .map(|it| [it.fingerprint.clone().into(), it.kind.clone().into()]);
    output::table(&OutputFormat::Table, &columns, rows)
}

fn retired(list: &RetiredRepositories) -> String {
    let columns = [
        TableColumn::key("ID"),
        TableColumn::word("POLICY"),
        TableColumn::word("URL"),
        TableColumn::word("REASON"),
    ];
    let rows = list.items.iter().map(|it| {
        [
            it.id.clone().into(),
            format!("{:?}", it.policy).into(),
            it.url.clone().into(),
            it.reason.clone().unwrap_or_default().into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_listed_with_the_origin_of_their_keys() {
        let server = |name: &str, source, host_keys| GitServerStatus {
            name: name.to_owned(),
            source,
            host_keys,
        };
        let key = HostKey {
            kind: "ssh-ed25519".to_owned(),
            fingerprint: "SHA256:abc".to_owned(),
        };
        let text = servers(&[
            server("one", HostKeySource::Confirmed, vec![key]),
            server("two", HostKeySource::None, Vec::new()),
        ]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["one", "confirmed", "SHA256:abc"]);
        assert_eq!(lines[2], ["two", "none"]);
    }
}
