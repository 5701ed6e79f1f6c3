//! Install commands of agents: for the manifest, for the chart, and for an agent outside of the cluster.

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{HubInfo, JoinInfo},
    site::{DeliveryRights, ImpersonationMode, OperatorNamespace, SiteChoices},
};
use fairlead_client::{HubClient, lookup::find};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::output::{self, OutputFormat};

/// Helm with the values of a site on its standard input, so that no join string is in an argument.
const HELM: &str = "helm upgrade --install fairlead-agent deploy/charts/fairlead-agent --namespace fairlead --create-namespace --values -";

/// Way in which kubectl and Helm get the install manifest and the values of this hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Install {
    /// By URL: the hub's certificate is issued by a public CA.
    Url,
    /// Through this program, which has the hub's CA.
    Manifest,
    /// Not at all: pods cannot reach the loopback address of a dev hub.
    AgentOnly,
}

/// An invitation with the command for Helm.
#[derive(Serialize)]
struct ShownInvitation {
    #[serde(flatten)]
    join: JoinInfo,
    /// `None`: pods cannot reach the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    helm: Option<String>,
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

    /// Prints an invitation with the choices of the site in its URLs.
    pub(super) fn show(
        self,
        format: &OutputFormat,
        mut join: JoinInfo,
        choices: &SiteChoices,
    ) -> Result<(), Failure> {
        for url in [&mut join.agent_install_url, &mut join.agent_values_url] {
            *url = with_choices(url, choices);
        }
        let helm = self.helm(&join, choices);
        let shown = ShownInvitation { join, helm };
        Ok(output::show(format, &shown, |shown| {
            self.command(&shown.join, choices)
        })?)
    }

    /// Install commands for the site. The URLs of the invitation have the choices.
    fn command(self, join: &JoinInfo, choices: &SiteChoices) -> String {
        let agent = format!(
            "  fairlead agent --join '{}' --kubeconfig ~/.kube/config{}\n",
            join.join.expose_secret(),
            namespaces_flag(choices)
        );
        let (id, until) = (&join.id, output::time(join.expires));
        let elsewhere = "Without an image, run this on a machine that reaches the API server:";
        let manifest = match self {
            Install::Url => format!(
                "kubectl apply -f '{}'",
                join.agent_install_url.expose_secret()
            ),
            Install::Manifest => format!(
                "fairlead cluster manifest {id}{} | kubectl apply -f -",
                flags(choices)
            ),
            Install::AgentOnly => {
                return format!(
                    "Cluster {id} is registered. On this machine, until {until}, run:\n\n{agent}\n\
                     Pods cannot reach this hub: its URL is a loopback address. For an agent in the cluster,\n\
                     start the hub with `--listen :8443 --public-url https://NAME:8443` and an `--image` that it can pull.\n"
                );
            }
        };
        let place = match self {
            Install::Url => "In the cluster",
            _ => "With kubectl for that cluster",
        };
        let helm = self.helm(join, choices).unwrap_or_default();
        format!(
            "Cluster {id} is registered. {place}, until {until}, run:\n\n  {manifest}\n\n\
             Or with Helm and the chart of this version:\n\n  {helm}\n\n{elsewhere}\n\n{agent}"
        )
    }

    /// Command for Helm; `None` if pods cannot reach the hub.
    fn helm(self, join: &JoinInfo, choices: &SiteChoices) -> Option<String> {
        let values = match self {
            Install::AgentOnly => return None,
            Install::Url => format!("curl -fsS '{}'", join.agent_values_url.expose_secret()),
            Install::Manifest => format!("fairlead cluster values {}{}", join.id, flags(choices)),
        };
        Some(format!("{values} | {HELM}"))
    }
}

fn with_choices(url: &SecretString, choices: &SiteChoices) -> SecretString {
    format!("{}{}", url.expose_secret(), choices.to_query()).into()
}

/// Flags of `fairlead cluster manifest` and `fairlead cluster values`.
fn flags(choices: &SiteChoices) -> String {
    let mut flags = namespaces_flag(choices);
    if choices.impersonation != ImpersonationMode::default() {
        flags += &format!(" --impersonation {}", choices.impersonation);
    }
    if choices.delivery != DeliveryRights::default() {
        flags += &format!(" --delivery {}", choices.delivery);
    }
    if let Some(target) = &choices.git_proxy {
        flags += &format!(" --git-proxy {target}");
    }
    flags
}

fn namespaces_flag(choices: &SiteChoices) -> String {
    let names = choices.operator_namespaces.iter();
    let names: Vec<&str> = names.map(OperatorNamespace::as_str).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" --operator-namespaces {}", names.join(",")),
    }
}

/// `fairlead cluster manifest`: the install manifest, fetched with the hub's own CA.
pub(super) async fn manifest(
    hub: &HubClient,
    name: &str,
    choices: &SiteChoices,
) -> Result<(), Failure> {
    let join = invitation(hub, name).await?;
    print_of(hub, &with_choices(&join.agent_install_url, choices)).await
}

/// `fairlead cluster values`: the values of the chart, likewise.
pub(super) async fn values(
    hub: &HubClient,
    name: &str,
    choices: &SiteChoices,
) -> Result<(), Failure> {
    let join = invitation(hub, name).await?;
    print_of(hub, &with_choices(&join.agent_values_url, choices)).await
}

async fn invitation(hub: &HubClient, name: &str) -> Result<JoinInfo, Failure> {
    let cluster = find(hub, name).await?;
    let path = format!("/v1/clusters/{}/bootstrap-token", cluster.id);
    Ok(hub.get(&path).await?)
}

/// The hub's own address serves it, too, if the URL has another port.
async fn print_of(hub: &HubClient, url: &SecretString) -> Result<(), Failure> {
    let path = url
        .expose_secret()
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'));
    let (_, path) =
        path.ok_or_else(|| Failure::because(Code::Internal, "the install URL has no path"))?;
    Ok(output::print(&hub.get_text(&format!("/{path}")).await?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join() -> JoinInfo {
        JoinInfo {
            id: "c-demo".parse().unwrap(),
            tenant: "t-default".parse().unwrap(),
            display_name: "demo".to_owned(),
            join: "fl1.x".into(),
            agent_install_url: "https://hub/install/agent.yaml?token=x".into(),
            agent_values_url: "https://hub/install/agent-values.yaml?token=x".into(),
            install_url: "https://hub/install/steward.json?token=x".into(),
            expires: time::OffsetDateTime::UNIX_EPOCH,
        }
    }

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
        let join = join();
        let text = Install::AgentOnly.command(&join, &SiteChoices::default());
        assert!(!text.contains("kubectl apply"), "{text}");
        assert!(!text.contains("helm"), "{text}");
        assert!(text.contains("fairlead agent --join 'fl1.x'"), "{text}");
        let text = Install::Manifest.command(&join, &SiteChoices::default());
        assert!(
            text.contains("fairlead cluster manifest c-demo | kubectl apply -f -"),
            "{text}"
        );
        assert!(!text.contains("kubectl apply -f 'https"), "{text}");
        let text = Install::Url.command(&join, &SiteChoices::default());
        assert!(text.contains("kubectl apply -f 'https://hub/"), "{text}");
    }

    #[test]
    fn choices_are_flags_of_both_commands() {
        let choices = SiteChoices {
            operator_namespaces: vec!["shop".parse().unwrap()],
            impersonation: ImpersonationMode::Constrained,
            delivery: DeliveryRights::None,
            git_proxy: Some("git.example:22".parse().unwrap()),
        };
        let text = Install::Manifest.command(&join(), &choices);
        let flags = "c-demo --operator-namespaces shop --impersonation constrained --delivery none --git-proxy git.example:22 |";
        let manifest = format!("fairlead cluster manifest {flags} kubectl");
        assert!(text.contains(&manifest), "{text}");
        let values = format!("fairlead cluster values {flags} helm upgrade --install");
        assert!(text.contains(&values), "{text}");
    }

    #[test]
    fn no_argument_of_helm_is_a_secret() {
        for install in [Install::Url, Install::Manifest] {
            let line = install.helm(&join(), &SiteChoices::default()).unwrap();
            let (_, helm) = line.split_once(" | ").unwrap();
            assert!(helm.starts_with("helm upgrade --install "), "{helm}");
            assert!(!helm.contains("fl1.") && !helm.contains("token"), "{helm}");
            assert!(helm.ends_with("--values -"), "{helm}");
        }
        assert_eq!(
            Install::AgentOnly.helm(&join(), &SiteChoices::default()),
            None
        );
    }
}
