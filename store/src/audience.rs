//! Audience of a change: the tenants whose members could see the resource before and after it.
//!
//! It is stored with the change, because it cannot be derived later: tenants are deleted and move.

use std::{fmt, str::FromStr};

use fairlead_api::TenantId;

use crate::error::StoreError;

/// Tenants from the resource's own up to the root. Callers of all tenants are not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audience {
    /// Empty if the resource did not exist.
    pub before: Vec<TenantId>,
    /// Empty if the resource was deleted.
    pub after: Vec<TenantId>,
}

/// Separates both parts; a space precedes and follows it, as for every tenant.
const SEPARATOR: &str = ">";

impl Audience {
    /// `LIKE` pattern matching written audiences that contain this tenant: an id has neither `%`
    /// nor `_`.
    pub(super) fn pattern(tenant: &TenantId) -> String {
        format!("% {tenant} %")
    }

    /// True if the tenant could see the resource before the change.
    #[must_use]
    pub fn saw(&self, tenant: &TenantId) -> bool {
        self.before.contains(tenant)
    }

    /// True if the tenant can see the resource after the change.
    #[must_use]
    pub fn sees(&self, tenant: &TenantId) -> bool {
        self.after.contains(tenant)
    }
}

impl fmt::Display for Audience {
    /// Written once if both parts are equal, the most frequent case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let put = |f: &mut fmt::Formatter<'_>, tenants: &[TenantId]| {
            tenants.iter().try_for_each(|it| write!(f, "{it} "))
        };
        f.write_str(" ")?;
        put(f, &self.before)?;
        if self.before != self.after {
            write!(f, "{SEPARATOR} ")?;
            put(f, &self.after)?;
        }
        Ok(())
    }
}

impl FromStr for Audience {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let read = |part: &str| {
            let tenants = part.split_whitespace().map(str::parse);
            let tenants = tenants.collect::<Result<Vec<TenantId>, _>>();
            tenants.map_err(|_| StoreError::Damaged(text.to_owned()))
        };
        let (before, after) = text.split_once(SEPARATOR).unwrap_or((text, text));
        Ok(Audience {
            before: read(before)?,
            after: read(after)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<TenantId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn an_audience_parses_back_and_other_texts_are_rejected() {
        for (before, after, written) in [
            (&[][..], &[][..], " "),
            (&["t-a"], &["t-a"], " t-a "),
            (&["t-b", "t-a"], &["t-b", "t-a"], " t-b t-a "),
            (&[], &["t-a"], " > t-a "),
            (&["t-a"], &[], " t-a > "),
            (&["t-b", "t-a"], &["t-b"], " t-b t-a > t-b "),
        ] {
            let audience = Audience {
                before: ids(before),
                after: ids(after),
            };
            assert_eq!(audience.to_string(), written);
            assert_eq!(written.parse::<Audience>().unwrap(), audience);
        }
        for damaged in ["t-a,t-b", "A", "t-a > t-b > t-c"] {
            assert!(damaged.parse::<Audience>().is_err(), "{damaged}");
        }
    }

    #[test]
    fn the_pattern_matches_whole_tenant_ids_only() {
        let audience = Audience {
            before: ids(&["t-b", "t-ab"]),
            after: ids(&["t-c"]),
        };
        let written = audience.to_string();
        let has = |tenant: &str| {
            let pattern = Audience::pattern(&tenant.parse().unwrap());
            written.contains(pattern.trim_matches('%'))
        };
        assert!(has("t-b") && has("t-ab") && has("t-c"));
        assert!(!has("t-a"));
    }
}
