//! Groups of a server that each tenant may use, by the settings.

use std::collections::BTreeMap;

use fairlead_api::{Code, TenantId};
use fairlead_repositories::GitServerError;

use crate::address::RepoPath;

/// Groups by tenant: `acme`, or `acme/*` for all groups below.
///
/// Without any entry each tenant may use each group.
#[derive(Debug, Clone, Default)]
pub(crate) struct TenantGroups(BTreeMap<TenantId, Vec<String>>);

impl TenantGroups {
    /// Reads the setting `tenants`.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn new(settings: BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut groups = BTreeMap::new();
        for (tenant, of_tenant) in settings {
            let id: TenantId = tenant
                .parse()
                .map_err(|error| format!("tenants: {tenant:?}: {error}"))?;
            if let Some(wrong) = of_tenant.iter().find(|it| !is_pattern(it)) {
                return Err(format!(
                    "tenants: {tenant}: {wrong:?}: expected a group like acme, or acme/*"
                ));
            }
            let of_tenant = of_tenant.iter().map(|it| it.to_lowercase());
            groups.insert(id, of_tenant.collect());
        }
        Ok(TenantGroups(groups))
    }

    /// Checks the group of a tenant's repository, or of one of its clusters'.
    ///
    /// # Errors
    /// `FL-4144`
    pub(crate) fn check(
        &self,
        server: &str,
        tenant: &TenantId,
        path: &RepoPath,
    ) -> Result<(), GitServerError> {
        let group = path.group.to_lowercase();
        let mut of_tenant = self.0.get(tenant).into_iter().flatten();
        if self.0.is_empty() || of_tenant.any(|it| allows(it, &group)) {
            return Ok(());
        }
        let reason = format!(
            "the tenant {tenant} may not use the group {group} of {server}; choose a group that the hub's settings list for it"
        );
        Err(GitServerError::Denied(Code::GroupNotAllowed, reason))
    }
}

fn is_pattern(text: &str) -> bool {
    let group = text.strip_suffix("/*").unwrap_or(text);
    let mut parts = group.split('/');
    parts.all(|part| !part.is_empty() && !part.contains('*') && part != "." && part != "..")
}

fn allows(pattern: &str, group: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(parent) => group
            .strip_prefix(parent)
            .is_some_and(|rest| rest.starts_with('/')),
        None => pattern == group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(entries: &[(&str, &[&str])]) -> Result<TenantGroups, String> {
        let entries = entries.iter().map(|(tenant, groups)| {
            let groups = groups.iter().map(|it| (*it).to_owned());
            ((*tenant).to_owned(), groups.collect())
        });
        TenantGroups::new(entries.collect())
    }

    #[test]
    fn tenants_use_their_groups_alone() {
        let groups = groups(&[("t-acme", &["Acme", "shared/*"]), ("t-none", &[])]).unwrap();
        let check = |tenant: &str, group: &str| {
            let path = RepoPath::new(group, "repo").unwrap();
            groups.check("git.example", &tenant.parse().unwrap(), &path)
        };
        for group in ["acme", "ACME", "shared/a", "shared/a/b"] {
            assert_eq!(check("t-acme", group), Ok(()), "{group}");
        }
        for (tenant, group) in [
            ("t-acme", "acme/below"),
            ("t-acme", "shared"),
            ("t-acme", "sharedx/a"),
            ("t-acme", "other"),
            ("t-none", "acme"),
            ("t-other", "acme"),
        ] {
            let denied = check(tenant, group).unwrap_err();
            let GitServerError::Denied(code, reason) = denied else {
                panic!("{denied:?}");
            };
            assert_eq!(code, Code::GroupNotAllowed);
            assert!(reason.contains(tenant) && reason.contains(group));
        }
    }

    #[test]
    fn without_lists_all_groups_are_free_and_mistakes_are_named() {
        let free = groups(&[]).unwrap();
        let path = RepoPath::new("any", "repo").unwrap();
        let tenant = "t-acme".parse().unwrap();
        assert_eq!(free.check("git.example", &tenant, &path), Ok(()));
        for (tenant, group) in [("acme", "a"), ("t-a", ""), ("t-a", "*"), ("t-a", "a/*/b")] {
            assert!(groups(&[(tenant, &[group])]).is_err(), "{tenant} {group}");
        }
    }
}
