//! Ids of resources in the form of Project Syn: a letter for the kind and a dash, like `c-` or `t-`, then lower-case letters, digits and inner dashes.
//! With at most 63 characters an id is also a DNS label and a Kubernetes name.

use std::{borrow::Cow, sync::Arc};

use utoipa::openapi::{
    RefOr,
    schema::{ObjectBuilder, Schema, Type},
};

use crate::checked_text::checked_text;

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
    /// The ULID has this character, which is not allowed.
    #[error("the id of a run has digits and upper-case letters except I, L, O and U, not {0:?}")]
    Ulid(char),
    /// The ULID is not one of 128 bits.
    #[error("the id of a run has 26 characters after `run-`, the first one 0 to 7")]
    UlidLength,
}

fn parse(text: &str, prefix: &'static str) -> Result<Arc<str>, IdError> {
    let rest = text.strip_prefix(prefix).ok_or(IdError::Prefix(prefix))?;
    if rest.is_empty() || text.len() > 63 {
        return Err(IdError::Length(text.len()));
    }
    let is_valid = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let valid = rest.bytes().take_while(is_valid).count();
    if let Some(c) = rest.get(valid..).and_then(|it| it.chars().next()) {
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
        checked_text!($(#[$doc])* $name, IdError, |text| parse(text, $prefix));

        impl $name {
            /// Prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id of a name; a missing prefix is added.
            ///
            /// # Errors
            /// [`IdError`] if the name is not valid in an id.
            pub fn from_name(name: &str) -> Result<Self, IdError> {
                if name.starts_with($prefix) { name.parse() } else { format!(concat!($prefix, "{}"), name).parse() }
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
id!(
    /// Permanent id of a source, like `s-platform`.
    SourceId,
    "s-"
);
id!(
    /// Permanent id of a bundle, like `b-shop`.
    BundleId,
    "b-"
);
id!(
    /// Permanent id of a group of clusters, like `g-edge`.
    GroupId,
    "g-"
);
id!(
    /// Permanent id of a rollout, like `r-shop-8`.
    RolloutId,
    "r-"
);

checked_text!(
    /// Permanent id of a run: `run-` and a [ULID](https://github.com/ulid/spec).
    RunId,
    IdError,
    parse_run
);

impl RunId {
    /// Prefix of every id of a run.
    pub const PREFIX: &'static str = "run-";

    /// Makes an id of the time in milliseconds since 1970 and of random bytes: ids rise with time.
    #[must_use]
    pub fn from_parts(unix_millis: u64, random: [u8; 10]) -> Self {
        const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let random = random
            .iter()
            .fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        let bits = u128::from(unix_millis & ((1 << 48) - 1)) << 80 | random;
        let digit = |at: u32| {
            let digit = usize::try_from(bits >> (5 * at) & 31).unwrap_or(0);
            ALPHABET.get(digit).copied().map_or('0', char::from)
        };
        let digits = (0..26).rev().map(digit);
        Self(
            RunId::PREFIX
                .chars()
                .chain(digits)
                .collect::<String>()
                .into(),
        )
    }
}

fn parse_run(text: &str) -> Result<Arc<str>, IdError> {
    let rest = text.strip_prefix(RunId::PREFIX);
    let rest = rest.ok_or(IdError::Prefix(RunId::PREFIX))?;
    // Crockford's alphabet has no I, L, O and U; 26 characters above 7 overflow 128 bits.
    let invalid = |c: &char| !matches!(c, '0'..='9' | 'A'..='H' | 'J' | 'K' | 'M' | 'N' | 'P'..='T' | 'V'..='Z');
    if let Some(c) = rest.chars().find(invalid) {
        return Err(IdError::Ulid(c));
    }
    match rest.chars().next() {
        Some('0'..='7') if rest.len() == 26 => Ok(text.into()),
        _ => Err(IdError::UlidLength),
    }
}

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
    fn id_of_a_run_is_a_ulid() {
        let good = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(good.parse::<RunId>().unwrap().as_str(), good);
        for bad in [
            "",
            "run-",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "run-01ARZ3NDEKTSV4RRFFQ69G5FA",
            "run-01ARZ3NDEKTSV4RRFFQ69G5FAVX",
            "run-81ARZ3NDEKTSV4RRFFQ69G5FAV",
            "run-01arz3ndektsv4rrffq69g5fav",
            "run-01ARZ3NDEKTSV4RRFFQ69G5FAI",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn made_id_of_a_run_has_its_time_and_bytes() {
        let id = RunId::from_parts(1_469_918_176_385, [0xab; 10]);
        assert_eq!(id.as_str().parse::<RunId>().unwrap(), id);
        assert!(id.as_str().starts_with("run-01ARYZ6S41"), "{id}");
        let later = RunId::from_parts(1_469_918_176_386, [0; 10]);
        assert!(id < later, "{id} {later}");
        let largest = RunId::from_parts(u64::MAX, [0xff; 10]);
        assert_eq!(largest.as_str(), "run-7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(
            RunId::from_parts(0, [0; 10]).as_str(),
            "run-00000000000000000000000000"
        );
    }

    #[test]
    fn id_in_json_is_validated() {
        assert!(serde_json::from_str::<TenantId>("\"t-acme\"").is_ok());
        assert!(serde_json::from_str::<TenantId>("\"t-../etc\"").is_err());
    }
}
