//! Names of ServiceAccounts in specs.

use std::fmt;

use fairlead_api::Code;

use crate::engine::{FailureClass, RunFailure};

/// Namespace of journals, of locks, and of the ServiceAccounts that bundles name without a namespace.
pub const DELIVERY_NAMESPACE: &str = "fairlead-delivery";

/// ServiceAccount of a bundle: `NAME` in `fairlead-delivery`, or `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName {
    namespace: String,
    name: String,
}

impl AccountName {
    /// Reads the field of a spec.
    ///
    /// # Errors
    /// The text is no name of a ServiceAccount.
    pub fn parse(text: &str) -> Result<Self, RunFailure> {
        let (namespace, name) = text.split_once('/').unwrap_or((DELIVERY_NAMESPACE, text));
        let is_name = |text: &str| {
            let is_inner = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
            };
            (1..=253).contains(&text.len()) && text.bytes().all(is_inner)
        };
        if is_name(namespace) && is_name(name) {
            return Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        let sentence = format!("{text:?} is no name of a ServiceAccount");
        let class = FailureClass::Permanent;
        Err(RunFailure::new(class, Code::AccountUnusable, sentence))
    }

    /// Namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for the namespace of deliveries.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.namespace == DELIVERY_NAMESPACE
    }

    /// User of its tokens.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    pub(super) fn token_path(&self) -> String {
        let Self { namespace, name } = self;
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token")
    }
}

/// `NAMESPACE/NAME`.
impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
