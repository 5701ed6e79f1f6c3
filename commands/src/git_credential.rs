//! `fairlead git-server credential`: tokens for Git servers in the hub's store.

use fairlead_api::{
    Failure, TenantId, percent,
    resources::{GitCredentialDocument, GitCredentials, SetGitCredential},
};
use fairlead_client::{HubClient, files};
use secrecy::ExposeSecret;

use crate::{
    args::GitCredentialArgs,
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
};

pub(crate) async fn run(command: GitCredentialArgs, hub: &HubClient) -> Result<(), Failure> {
    match command {
        GitCredentialArgs::Set {
            name,
            tenant,
            token_file,
        } => {
            let token = files::token(&token_file)?;
            let body = SetGitCredential {
                token: token.expose_secret().to_owned(),
            };
            let path = path_of(tenant.as_ref(), &name);
            let set: GitCredentialDocument = hub.put(&path, &body).await?;
            Ok(output::print(&format!(
                "Set the credential {}.\n",
                set.name
            ))?)
        }
        GitCredentialArgs::List {
            tenant,
            output: asked,
        } => {
            let list: GitCredentials = hub.get(&all_of(tenant.as_ref())).await?;
            let names = |list: &GitCredentials| {
                let names = list.items.iter();
                names.map(|it| format!("{}\n", it.name)).collect()
            };
            Ok(output::show_named(&asked.output, &list, names, table)?)
        }
        GitCredentialArgs::Delete { name, tenant, yes } => {
            let question = "Repositories with this credential stay as they are until they have another one. Delete it?";
            confirm(yes, question)?;
            hub.delete(&path_of(tenant.as_ref(), &name)).await?;
            Ok(output::print("Deleted the credential.\n")?)
        }
    }
}

fn all_of(tenant: Option<&TenantId>) -> String {
    match tenant {
        Some(tenant) => format!("/v1/tenants/{tenant}/git-credentials"),
        None => "/v1/git-credentials".to_owned(),
    }
}

fn path_of(tenant: Option<&TenantId>, name: &str) -> String {
    format!("{}/{}", all_of(tenant), percent::encode(name))
}

fn table(list: &GitCredentials) -> String {
    let columns = [
        TableColumn::key("NAME"),
        TableColumn::word("CHANGED"),
        TableColumn::word("BY"),
    ];
    let rows = list.items.iter().map(|it| {
        let changed = it.changed.replace_nanosecond(0).unwrap_or(it.changed);
        [
            it.name.clone().into(),
            changed.to_string().into(),
            it.by.clone().into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_tenant_have_a_path_of_their_own() {
        let acme: TenantId = "t-acme".parse().unwrap();
        assert_eq!(
            path_of(Some(&acme), "gitlab"),
            "/v1/tenants/t-acme/git-credentials/gitlab"
        );
        assert_eq!(path_of(None, "a/b"), "/v1/git-credentials/a%2Fb");
    }
}
