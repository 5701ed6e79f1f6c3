//! Settings of a hub about its sites: enrolment and adoption of agents, Git proxy, named services.

#![allow(
    rustdoc::bare_urls,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

use std::{net::IpAddr, time::Duration};

use fairlead_api::{TimeSpan, resources::ServicePorts};
use fairlead_control::{
    ADOPTION_TTL, AdoptionSettings, EnrollSettings, GitProxySettings, ServiceSettings,
};
use fairlead_dialer::ProxyRules;
use fairlead_runtime::config::Reader;

use crate::build_info::VERSION;

/// Pinned image of Steward, a version that is tested with this hub.
pub(super) const STEWARD_IMAGE: &str = "docker.io/projectsyn/steward:v0.13.0";
/// Default of `--renew-grace`: a cluster that was off for a month can still renew its identity.
pub(super) const RENEW_GRACE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Shortest and longest time of a code: a person has to type it.
const ADOPTION_TTLS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(24 * 3600);

/// Flags about sites.
#[derive(clap::Args)]
pub(crate) struct SiteFlags {
    /// Let agents without a join string announce themselves; a person approves each by the code in its log
    #[arg(long)]
    adoption: bool,
    /// Lifetime of such a code, 1m to 24h [default: 1h]
    #[arg(long, value_name = "DURATION")]
    adoption_ttl: Option<String>,
    /// Git server that agents may reach through the hub, like git.example.com:22; repeatable [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    git_proxy_allow: Vec<String>,
    /// Let each cluster reach all of these Git servers, not only those of its own repositories
    #[arg(long)]
    git_proxy_all_clusters: bool,
    /// Private network of Git servers, like 10.0.0.0/8; names that resolve to other private addresses are refused; repeatable
    #[arg(long, value_name = "NETWORK")]
    git_proxy_private: Vec<String>,
    /// Address at which the hub listens for named services with a port, like 0.0.0.0 [default: none, services have no ports]
    #[arg(long, value_name = "IP")]
    service_listen: Option<String>,
    /// Ports that named services may have [default: 20000-20999]
    #[arg(long, value_name = "FIRST-LAST")]
    service_ports: Option<String>,
    /// Domain of the host names that named services may have at the listen address, like apps.example.com; the certificate has
    /// to cover the names of services by http [default: none, services have no host names]
    #[arg(long, value_name = "DOMAIN")]
    service_domain: Option<String>,
}

/// Settings of enrolment, with defaults for those that only `fairlead server` has.
pub(super) fn enroll(reader: &mut Reader) -> EnrollSettings {
    EnrollSettings {
        renew_grace: RENEW_GRACE,
        version: VERSION.to_owned(),
        image: reader.or("image", format!("fairlead:{VERSION}")),
        steward_image: STEWARD_IMAGE.to_owned(),
        adoption: adoption(reader),
    }
}

fn adoption(reader: &mut Reader) -> Option<AdoptionSettings> {
    let is_on = reader.or("adoption", false);
    let TimeSpan(ttl) = reader.or("adoption-ttl", TimeSpan(ADOPTION_TTL));
    if !ADOPTION_TTLS.contains(&ttl) {
        reader.mistake("adoption-ttl: expected 1m to 24h");
    }
    is_on.then_some(AdoptionSettings { ttl })
}

/// Settings of the Git proxy.
pub(super) fn git_proxy(reader: &mut Reader) -> GitProxySettings {
    GitProxySettings {
        allow: reader.list("git-proxy-allow"),
        for_all_clusters: reader.or("git-proxy-all-clusters", false),
        private_networks: reader.list("git-proxy-private"),
        proxy: ProxyRules::default(),
    }
}

/// Settings of named services: the address of their ports, and the ports and hosts that they may have.
pub(super) fn services(reader: &mut Reader) -> (Option<IpAddr>, ServiceSettings) {
    let listen: Option<IpAddr> = reader.optional("service-listen");
    let ports = reader.or("service-ports", ServicePorts::default());
    let domain: Option<String> = reader.optional("service-domain");
    let domain = domain.map(|it| it.trim_matches('.').to_ascii_lowercase());
    let ports = listen.is_some().then_some(ports);
    (listen, ServiceSettings { ports, domain })
}
