//! `fairlead cluster token` and the install commands of agents.

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{BootstrapToken, HubInfo, JoinInfo, List},
    site::{DeliveryRights, ImpersonationMode, OperatorNamespace, SiteChoices},
};
use fairlead_client::{HubClient, lookup::find};
use secrecy::ExposeSecret;

use crate::{
    args,
    confirm::confirm,
    output::{self, Cell, TableColumn},
    tenant_filter::check_tenant,
};

pub(super) async fn run(hub: &HubClient, command: args::ClusterToken) -> Result<(), Failure> {
    let path = async |name: &str| -> Result<String, Failure> {
        let cluster = find(hub, name).await?;
        Ok(format!("/v1/clusters/{}/bootstrap-token", cluster.id))
    };
    match command {
        args::ClusterToken::Renew { name, yes, output } => {
            let path = path(&name).await?;
            let question = format!(
                "This creates a new bootstrap token of {name} and revokes the previous one. Continue?"
            );
            confirm(yes, &question)?;
            let install = Install::of(hub).await?;
            let join: JoinInfo = hub.post(&path, &serde_json::json!({})).await?;
            Ok(output::show(&output.output, &join, |join| {
                install.command(join, &SiteChoices::default())
            })?)
        }
        args::ClusterToken::Show { name, output } => {
            let install = Install::of(hub).await?;
            let join: JoinInfo = hub.get(&path(&name).await?).await?;
            Ok(output::show(&output.output, &join, |join| {
                install.command(join, &SiteChoices::default())
            })?)
        }
        args::ClusterToken::Revoke { name, yes } => {
            let path = path(&name).await?;
            let question = format!(
                "This revokes the bootstrap token of {name}; no agent can enrol with it. Continue?"
            );
            confirm(yes, &question)?;
            hub.delete(&path).await?;
            Ok(output::print(&format!(
                "Revoked the bootstrap token of {name}.\n"
            ))?)
        }
        args::ClusterToken::List(asked) => {
            check_tenant(hub, asked.tenant.as_ref()).await?;
            let path = format!("/v1/bootstrap-tokens?{}", crate::token::query(&asked));
            let tokens: List<BootstrapToken> = hub.get(&path).await?;
            let things = "bootstrap tokens";
            Ok(output::show_list(
                &asked.output.output,
                &tokens,
                things,
                &columns(),
                cells,
            )?)
        }
    }
}

fn columns() -> [TableColumn; 6] {
    [
        TableColumn::key("CLUSTER"),
        TableColumn::id("TENANT").spare(2),
        TableColumn::word("STATE"),
        TableColumn::word("EXPIRES IN").spare(3),
        TableColumn::text("MADE BY").spare(1),
        TableColumn::word("EXPIRES").wide(),
    ]
}

fn cells(token: &BootstrapToken) -> [Cell; 6] {
    [
        token.cluster.to_string().into(),
        token.tenant.to_string().into(),
        format!("{:?}", token.state).into(),
        Cell::Until(token.expires),
        token.created_by.clone().into(),
        output::time(token.expires).into(),
    ]
}

/// Way in which kubectl gets the install manifest of this hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Install {
    /// By URL: the hub's certificate is issued by a public CA.
    Url,
    /// Through this program, which has the hub's CA.
    Manifest,
    /// No manifest: pods cannot reach the loopback address of a dev hub.
    AgentOnly,
}

impl Install {
    pub(super) async fn of(hub: &HubClient) -> Result<Self, Failure> {
        let about: HubInfo = hub.get("/v1/hub").await?;
        let trusted = about.ca.is_none() && hub.ca().is_none();
        Ok(Install::for_hub(&about.public_url, trusted))
    }

    fn for_hub(url: &HubUrl, trusted: bool) -> Self {
        let address = url.host().parse::<std::net::IpAddr>();
        let local = url.host() == "localhost" || address.is_ok_and(|it| it.is_loopback());
        match (local, trusted) {
            (true, _) => Install::AgentOnly,
            (false, true) => Install::Url,
            (false, false) => Install::Manifest,
        }
    }

    /// Install commands for the site.
    pub(super) fn command(self, join: &JoinInfo, choices: &SiteChoices) -> String {
        let agent = format!(
            "  fairlead agent --join '{}' --kubeconfig ~/.kube/config{}\n",
            join.join.expose_secret(),
            namespaces_flag(choices)
        );
        let flags = namespaces_flag(choices)
            + &impersonation_flag(choices)
            + &delivery_flag(choices)
            + &git_proxy_flag(choices);
        let (id, until) = (&join.id, output::time(join.expires));
        let elsewhere = "Without an image, run this on a machine that reaches the API server:";
        match self {
            Install::Url => format!(
                "Cluster {id} is registered. In the cluster, until {until}, run:\n\n  \
                 kubectl apply -f '{}'\n\n{elsewhere}\n\n{agent}",
                join.agent_install_url.expose_secret(),
            ),
            Install::Manifest => format!(
                "Cluster {id} is registered. With kubectl for that cluster, until {until}, run:\n\n  \
                 fairlead cluster manifest {id}{flags} | kubectl apply -f -\n\n{elsewhere}\n\n{agent}"
            ),
            Install::AgentOnly => format!(
                "Cluster {id} is registered. On this machine, until {until}, run:\n\n{agent}\n\
                 Pods cannot reach this hub: its URL is a loopback address. For an agent in the cluster,\n\
                 start the hub with `--listen :8443 --public-url https://NAME:8443` and an `--image` that it can pull.\n"
            ),
        }
    }
}

fn namespaces_flag(choices: &SiteChoices) -> String {
    let names = choices.operator_namespaces.iter();
    let names: Vec<&str> = names.map(OperatorNamespace::as_str).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" --operator-namespaces {}", names.join(",")),
    }
}

fn git_proxy_flag(choices: &SiteChoices) -> String {
    let target = choices.git_proxy.as_ref();
    target.map_or_else(String::new, |it| format!(" --git-proxy {it}"))
}

fn impersonation_flag(choices: &SiteChoices) -> String {
    match choices.impersonation {
        ImpersonationMode::Plain => String::new(),
        constrained => format!(" --impersonation {constrained}"),
    }
}

fn delivery_flag(choices: &SiteChoices) -> String {
    match choices.delivery {
        DeliveryRights::Admin => String::new(),
        none => format!(" --delivery {none}"),
    }
}

/// `fairlead cluster manifest`: the install manifest, fetched with the hub's own CA.
pub(super) async fn manifest(
    hub: &HubClient,
    name: &str,
    choices: &SiteChoices,
) -> Result<(), Failure> {
    let cluster = find(hub, name).await?;
    let path = format!("/v1/clusters/{}/bootstrap-token", cluster.id);
    let join: JoinInfo = hub.get(&path).await?;
    let url = join.agent_install_url.expose_secret();
    // The hub's own address serves the manifest, too, if the URL has another port.
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'));
    let (_, path) =
        path.ok_or_else(|| Failure::because(Code::Internal, "the install URL has no path"))?;
    let path = format!("/{path}{}", choices.to_query());
    Ok(output::print(&hub.get_text(&path).await?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_is_fetched_by_kubectl_only_where_it_trusts_the_hub() {
        for (url, trusted, expected) in [
            ("https://hub.example.com", true, Install::Url),
            ("https://hub.example.com", false, Install::Manifest),
            ("https://127.0.0.1:8443", false, Install::AgentOnly),
            ("https://localhost:8443", true, Install::AgentOnly),
            ("https://[::1]:8443", false, Install::AgentOnly),
        ] {
            let install = Install::for_hub(&url.parse().unwrap(), trusted);
            assert_eq!(install, expected, "{url}");
        }
    }

    #[test]
    fn agent_command_comes_first_where_pods_cannot_reach_the_hub() {
        let join = JoinInfo {
            id: "c-demo".parse().unwrap(),
            tenant: "t-default".parse().unwrap(),
            display_name: "demo".to_owned(),
            join: "fl1.x".into(),
            agent_install_url: "https://hub/install/agent.yaml?token=x".into(),
            install_url: "https://hub/install/steward.json?token=x".into(),
            expires: time::OffsetDateTime::UNIX_EPOCH,
        };
        let text = Install::AgentOnly.command(&join, &SiteChoices::default());
        assert!(!text.contains("kubectl apply"), "{text}");
        assert!(text.contains("fairlead agent --join 'fl1.x'"), "{text}");
        let text = Install::Manifest.command(&join, &SiteChoices::default());
        assert!(
            text.contains("fairlead cluster manifest c-demo | kubectl apply -f -"),
            "{text}"
        );
        assert!(!text.contains("kubectl apply -f 'https"), "{text}");
        let text = Install::Url.command(&join, &SiteChoices::default());
        assert!(text.contains("kubectl apply -f 'https://hub/"), "{text}");
        let choices = SiteChoices {
            operator_namespaces: vec!["shop".parse().unwrap()],
            impersonation: ImpersonationMode::Constrained,
            delivery: DeliveryRights::Admin,
            git_proxy: Some("git.example:22".parse().unwrap()),
        };
        let text = Install::Manifest.command(&join, &choices);
        let flags = "--operator-namespaces shop --impersonation constrained --git-proxy git.example:22 | kubectl";
        assert!(text.contains(flags), "{text}");
    }
}
