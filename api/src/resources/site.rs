//! Network of a site, as its agent needs it: proxy, certificate authorities, further addresses of the hub.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::HubUrl;

/// Key of a site's Secret with the URL of the proxy; also the name of the variable that the agent reads.
pub const PROXY_SECRET_KEY: &str = "HTTPS_PROXY";
/// Limit of the further hubs: a join string has eight addresses, and the first is the hub's own.
pub const MAX_SITE_HUBS: usize = 7;
/// Value of a cluster's proxy that replaces the proxy of its tenant by none.
pub const DIRECT: &str = "none";

/// Network settings of sites; a cluster's own ones replace those of its tenant, field by field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SiteSettings {
    /// Proxy on the path to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<SiteProxy>,
    /// Further certificate authorities that the agent trusts for the hub's public certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Further addresses of the hub, each `https://host[:port]`. The agent dials them after the hub's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 7)]
    pub hubs: Option<Vec<HubUrl>>,
}

/// Proxy of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SiteProxy {
    /// URL without credentials, or `none` against a proxy of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Secret of the site in the namespace of the agent, with the URL in `HTTPS_PROXY`: for a URL with credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Hosts and networks without the proxy, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}

impl SiteProxy {
    /// True if no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == SiteProxy::default()
    }

    fn has_place(&self) -> bool {
        self.url.is_some() || self.secret.is_some()
    }
}

impl SiteSettings {
    /// True if no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == SiteSettings::default()
    }

    /// Effective settings of a cluster with those of its tenant's template.
    ///
    /// URL and Secret of a proxy belong together: a cluster with one of them takes neither from its tenant.
    #[must_use]
    pub fn over(own: Option<&Self>, of_template: Option<&Self>) -> Self {
        let both = || [own, of_template].into_iter().flatten();
        let proxies = || both().filter_map(|it| it.proxy.as_ref());
        let place = proxies().find(|it| it.has_place());
        let place = place.filter(|it| it.url.as_deref() != Some(DIRECT));
        let proxy = place.map(|place| SiteProxy {
            url: place.url.clone(),
            secret: place.secret.clone(),
            no_proxy: proxies().find_map(|it| it.no_proxy.clone()),
        });
        SiteSettings {
            proxy,
            ca: both().find_map(|it| it.ca.clone()),
            hubs: both().find_map(|it| it.hubs.clone()),
        }
    }

    /// Addresses of the hub for a join string: its own one, then the further ones.
    #[must_use]
    pub fn addresses(&self, own: &HubUrl) -> Vec<HubUrl> {
        let mut all = vec![own.clone()];
        for hub in self.hubs.iter().flatten() {
            if !all.contains(hub) {
                all.push(hub.clone());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> SiteSettings {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn cluster_wins_over_its_tenant_field_by_field() {
        let tenant = of(
            r#"{"proxy":{"secret":"proxy","noProxy":"10.0.0.0/8"},"ca":"T","hubs":["https://two.example"]}"#,
        );
        let own = of(r#"{"proxy":{"url":"http://proxy:3128"},"hubs":[]}"#);
        let both = SiteSettings::over(Some(&own), Some(&tenant));
        assert_eq!(
            both,
            of(
                r#"{"proxy":{"url":"http://proxy:3128","noProxy":"10.0.0.0/8"},"ca":"T","hubs":[]}"#
            ),
            "the Secret belongs to the tenant's proxy"
        );
        let direct = of(r#"{"proxy":{"url":"none"}}"#);
        let both = SiteSettings::over(Some(&direct), Some(&tenant));
        assert_eq!(both.proxy, None);
        let only_exceptions = of(r#"{"proxy":{"noProxy":"hub.example"}}"#);
        let both = SiteSettings::over(Some(&only_exceptions), Some(&tenant));
        let proxy = both.proxy.unwrap();
        assert_eq!(proxy.secret.as_deref(), Some("proxy"));
        assert_eq!(proxy.no_proxy.as_deref(), Some("hub.example"));
        assert!(SiteSettings::over(None, None).is_empty());
        assert_eq!(
            SiteSettings::over(Some(&only_exceptions), None).proxy,
            None,
            "exceptions from no proxy"
        );
    }

    #[test]
    fn own_address_comes_first_and_once() {
        let own: HubUrl = "https://one.example".parse().unwrap();
        let site = of(r#"{"hubs":["https://two.example:8443","https://one.example"]}"#);
        let addresses: Vec<String> = site.addresses(&own).iter().map(HubUrl::to_string).collect();
        assert_eq!(
            addresses,
            ["https://one.example", "https://two.example:8443"]
        );
    }
}
