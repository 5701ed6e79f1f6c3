//! Ids of clusters and tenants in the form of Project Syn: `c-` or `t-`, then lower-case letters, digits and inner dashes.
//! With at most 63 characters an id is also a DNS label and a Kubernetes name.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use utoipa::openapi::{
    RefOr,
    schema::{ObjectBuilder, Schema, Type},
};

/// Error of parsing an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The prefix is missing.
    #[error("an id starts with {0:?}")]
    Prefix(&'static str),
    /// The text has this length, which is not allowed.
    #[error("an id has 3 to 63 characters, not {0}")]
    Length(usize),
    /// The text has this character, which is not allowed.
    #[error("an id has lower-case letters, digits and inner dashes, not {0:?}")]
    Character(char),
}

fn parse(text: &str, prefix: &'static str) -> Result<Arc<str>, IdError> {
    let rest = text.strip_prefix(prefix).ok_or(IdError::Prefix(prefix))?;
    if rest.is_empty() || text.len() > 63 {
        return Err(IdError::Length(text.len()));
    }
    let invalid = |c: &char| !matches!(c, 'a'..='z' | '0'..='9' | '-');
    if let Some(c) = rest.chars().find(invalid) {
        return Err(IdError::Character(c));
    }
    if rest.starts_with('-') || rest.ends_with('-') {
        return Err(IdError::Character('-'));
    }
    Ok(text.into())
}

fn id_schema() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("Lower-case letters, digits and inner dashes behind `c-` or `t-`, 63 characters at most; generated as `<letter>-<adjective>-<noun>-<digits>`."))
        .min_length(Some(1))
        .max_length(Some(63))
        .pattern(Some("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
        .into()
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Makes an id of a name; a missing prefix is added.
            ///
            /// # Errors
            /// [`IdError`] if the name is not valid in an id.
            pub fn from_name(name: &str) -> Result<Self, IdError> {
                if name.starts_with($prefix) { name.parse() } else { format!(concat!($prefix, "{}"), name).parse() }
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                parse(text, $prefix).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                id_schema()
            }
        }

        /// Both kinds of ids share one schema: the prefix may be left out in a request.
        impl utoipa::ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed("Id")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// Permanent id of a cluster, like `c-green-lake-4711`.
    ClusterId,
    "c-"
);
id!(
    /// Permanent id of a tenant, like `t-acme`.
    TenantId,
    "t-"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_a_dns_label_with_its_prefix() {
        assert_eq!("c-demo".parse::<ClusterId>().unwrap().as_str(), "c-demo");
        assert_eq!(ClusterId::from_name("demo").unwrap().as_str(), "c-demo");
        assert_eq!(ClusterId::from_name("c-demo").unwrap().as_str(), "c-demo");
        for bad in [
            "", "c-", "demo", "t-demo", "c--demo", "c-demo-", "c-Demo", "c-a.b", "c-a/b", "c-ä",
            "c-\0",
        ] {
            assert!(bad.parse::<ClusterId>().is_err(), "{bad:?} must be refused");
        }
        assert!(format!("c-{}", "a".repeat(61)).parse::<ClusterId>().is_ok());
        assert!(
            format!("c-{}", "a".repeat(62))
                .parse::<ClusterId>()
                .is_err()
        );
    }

    #[test]
    fn id_in_json_is_validated() {
        assert!(serde_json::from_str::<TenantId>("\"t-acme\"").is_ok());
        assert!(serde_json::from_str::<TenantId>("\"t-../etc\"").is_err());
    }
}
