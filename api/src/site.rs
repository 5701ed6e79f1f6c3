//! Choices of a site operator about the rights of the hub's users in the cluster.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Prefixes of namespaces that operators never get: Kubernetes' own and the agent's.
const RESERVED_PREFIXES: [&str; 2] = ["kube-", "fairlead"];
/// Maximum length of a namespace's name, in bytes (RFC 1123).
const MAX_LABEL_BYTES: usize = 63;
/// Maximum number of namespaces in one list.
const MAX_NAMESPACES: usize = 100;

/// Query parameter of the install URL with the namespaces of operators, separated by commas.
pub const NAMESPACES_PARAMETER: &str = "operatorNamespaces";
/// Query parameter of the install URL with the [`ImpersonationMode`].
pub const IMPERSONATION_PARAMETER: &str = "impersonation";
/// Query parameter of the install URL with the [`DeliveryRights`].
pub const DELIVERY_PARAMETER: &str = "delivery";
/// Query parameter of the install URL with the [`GitProxyTarget`].
pub const GIT_PROXY_PARAMETER: &str = "gitProxy";
/// ClusterRole of the group `fairlead:operator` in each of its namespaces.
pub const OPERATOR_CLUSTER_ROLE: &str = "edit";

/// Invalid choice of a site operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteChoiceError {
    /// No name of a namespace.
    #[error("{0:?} is no name of a namespace")]
    Name(String),
    /// A namespace of Kubernetes or of Fairlead.
    #[error("namespace {0:?} is not for operators: names with kube- or fairlead are reserved")]
    Reserved(String),
    /// Too many namespaces.
    #[error("more than {MAX_NAMESPACES} namespaces")]
    TooMany,
    /// No rights of deliveries.
    #[error("{0:?} are no rights of deliveries: they are admin or none")]
    Delivery(String),
    /// No address of a Git server.
    #[error("{0:?} is no address of a Git server: it is HOST:PORT")]
    GitProxy(String),
    /// No mode of impersonation.
    #[error("{0:?} is no mode of impersonation: it is plain or constrained")]
    Mode(String),
}

/// Namespace in which operators get the ClusterRole [`OPERATOR_CLUSTER_ROLE`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperatorNamespace(String);

impl OperatorNamespace {
    /// Name of the namespace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<OperatorNamespace> for String {
    fn from(namespace: OperatorNamespace) -> Self {
        namespace.0
    }
}

impl TryFrom<String> for OperatorNamespace {
    type Error = SiteChoiceError;

    fn try_from(name: String) -> Result<Self, SiteChoiceError> {
        name.parse()
    }
}

impl FromStr for OperatorNamespace {
    type Err = SiteChoiceError;

    fn from_str(name: &str) -> Result<Self, SiteChoiceError> {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let has_edges = !name.starts_with('-') && !name.ends_with('-');
        let is_sized = (1..=MAX_LABEL_BYTES).contains(&name.len());
        if !(is_sized && has_edges && name.bytes().all(is_inner)) {
            return Err(SiteChoiceError::Name(name.to_owned()));
        }
        if RESERVED_PREFIXES.iter().any(|it| name.starts_with(it)) {
            return Err(SiteChoiceError::Reserved(name.to_owned()));
        }
        Ok(OperatorNamespace(name.to_owned()))
    }
}

/// Verbs by which RBAC lets the agent impersonate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImpersonationMode {
    /// The verb `impersonate`, in all versions of Kubernetes.
    #[default]
    Plain,
    /// Constrained impersonation (KEP-5284): never of nodes and service accounts, and only for the verbs of the API.
    /// Kubernetes has it since 1.36.
    Constrained,
}

impl FromStr for ImpersonationMode {
    type Err = SiteChoiceError;

    fn from_str(text: &str) -> Result<Self, SiteChoiceError> {
        match text {
            "plain" => Ok(ImpersonationMode::Plain),
            "constrained" => Ok(ImpersonationMode::Constrained),
            other => Err(SiteChoiceError::Mode(other.to_owned())),
        }
    }
}

impl fmt::Display for ImpersonationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImpersonationMode::Plain => "plain",
            ImpersonationMode::Constrained => "constrained",
        })
    }
}

/// Rights of deliveries in the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeliveryRights {
    /// The ServiceAccount `deployer` is bound to `cluster-admin`.
    #[default]
    Admin,
    /// The agent delivers nothing, and has no rights for it.
    None,
}

impl FromStr for DeliveryRights {
    type Err = SiteChoiceError;

    fn from_str(text: &str) -> Result<Self, SiteChoiceError> {
        match text {
            "admin" => Ok(DeliveryRights::Admin),
            "none" => Ok(DeliveryRights::None),
            other => Err(SiteChoiceError::Delivery(other.to_owned())),
        }
    }
}

impl fmt::Display for DeliveryRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeliveryRights::Admin => "admin",
            DeliveryRights::None => "none",
        })
    }
}

/// Git server that programs of the cluster reach through the tunnel, as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitProxyTarget {
    host: String,
    port: u16,
}

impl GitProxyTarget {
    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for GitProxyTarget {
    type Err = SiteChoiceError;

    fn from_str(text: &str) -> Result<Self, SiteChoiceError> {
        let bad = || SiteChoiceError::GitProxy(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(bad)?;
        let is_host =
            |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b".-".contains(&it);
        match (1..=253).contains(&host.len()) && host.bytes().all(is_host) {
            true => Ok(GitProxyTarget {
                host: host.to_owned(),
                port,
            }),
            false => Err(bad()),
        }
    }
}

impl fmt::Display for GitProxyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Choices of a site operator, as parameters of the install URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteChoices {
    /// Namespaces of operators.
    pub operator_namespaces: Vec<OperatorNamespace>,
    /// Mode of impersonation.
    pub impersonation: ImpersonationMode,
    /// Rights of deliveries.
    pub delivery: DeliveryRights,
    /// Git server behind the Git proxy; `None`: the agent has no such proxy.
    pub git_proxy: Option<GitProxyTarget>,
}

impl SiteChoices {
    /// Reads the choices from the query of an install URL; other parameters are ignored.
    ///
    /// # Errors
    /// [`SiteChoiceError`]
    pub fn from_query(query: &str) -> Result<Self, SiteChoiceError> {
        let mut choices = SiteChoices::default();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some((NAMESPACES_PARAMETER, names)) => {
                    let names = names.split(',').filter(|name| !name.is_empty());
                    for name in names {
                        choices.operator_namespaces.push(name.parse()?);
                    }
                }
                Some((IMPERSONATION_PARAMETER, mode)) => choices.impersonation = mode.parse()?,
                Some((DELIVERY_PARAMETER, rights)) => choices.delivery = rights.parse()?,
                Some((GIT_PROXY_PARAMETER, target)) => choices.git_proxy = Some(target.parse()?),
                _ => {}
            }
        }
        if choices.operator_namespaces.len() > MAX_NAMESPACES {
            return Err(SiteChoiceError::TooMany);
        }
        Ok(choices)
    }

    /// Parameters to append to an install URL; empty for the defaults. No character of them needs an escape.
    #[must_use]
    pub fn to_query(&self) -> String {
        let names = self.operator_namespaces.iter();
        let names: Vec<&str> = names.map(OperatorNamespace::as_str).collect();
        let mut query = String::new();
        if !names.is_empty() {
            query += &format!("&{NAMESPACES_PARAMETER}={}", names.join(","));
        }
        if self.impersonation != ImpersonationMode::default() {
            query += &format!("&{IMPERSONATION_PARAMETER}={}", self.impersonation);
        }
        if self.delivery != DeliveryRights::default() {
            query += &format!("&{DELIVERY_PARAMETER}={}", self.delivery);
        }
        if let Some(target) = &self.git_proxy {
            query += &format!("&{GIT_PROXY_PARAMETER}={target}");
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_survive_the_query_of_a_url() {
        let choices = SiteChoices {
            operator_namespaces: vec!["shop".parse().unwrap(), "web-1".parse().unwrap()],
            impersonation: ImpersonationMode::Constrained,
            delivery: DeliveryRights::None,
            git_proxy: Some("git.example:22".parse().unwrap()),
        };
        let query = format!("token=x{}", choices.to_query());
        assert_eq!(
            query,
            "token=x&operatorNamespaces=shop,web-1&impersonation=constrained&delivery=none&gitProxy=git.example:22"
        );
        assert_eq!(SiteChoices::from_query(&query), Ok(choices));
        assert_eq!(
            SiteChoices::from_query("token=x"),
            Ok(SiteChoices::default())
        );
        assert_eq!(SiteChoices::default().to_query(), "");
    }

    #[test]
    fn git_server_needs_a_plain_host_and_a_port() {
        for bad in [
            "",
            "git.example",
            ":22",
            "git.example:0",
            "a/b:22",
            "a&b:22",
            "[::1]:22",
        ] {
            let refused = bad.parse::<GitProxyTarget>();
            assert_eq!(refused, Err(SiteChoiceError::GitProxy(bad.to_owned())));
        }
    }

    #[test]
    fn reserved_and_invalid_namespaces_are_refused() {
        for name in ["kube-system", "fairlead", "fairlead-2", "kube-"] {
            let refused = name.parse::<OperatorNamespace>();
            assert!(refused.is_err(), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "a/b", "a%62", &"a".repeat(64)] {
            let refused = name.parse::<OperatorNamespace>();
            assert_eq!(refused, Err(SiteChoiceError::Name(name.to_owned())));
        }
        assert!("kubernetes-dashboard".parse::<OperatorNamespace>().is_ok());
        let many = vec!["a"; 101].join(",");
        let refused = SiteChoices::from_query(&format!("{NAMESPACES_PARAMETER}={many}"));
        assert_eq!(refused, Err(SiteChoiceError::TooMany));
    }
}
