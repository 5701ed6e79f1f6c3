//! Rules of impersonation, for any request of the hub: users under `fairlead:`, and groups from the agent's own
//! list, compared byte by byte. RBAC cannot restrict prefixes of users, so the agent does.

use fairlead_api::{
    Code, Failure, TenantId,
    impersonation::{self, AS_HEADER, GROUP_HEADER, NAME_PREFIX, USER_HEADER},
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Parsed once.
static USER: HeaderName = HeaderName::from_static(USER_HEADER);
static GROUP: HeaderName = HeaderName::from_static(GROUP_HEADER);
static AS_USER: HeaderName = HeaderName::from_static(AS_HEADER);

/// Prefix of Kubernetes' own names; never impersonated, even if listed.
const SYSTEM_PREFIX: &str = "system:";
/// Group of the hub's admins.
const ADMIN_GROUP: &str = "fairlead:admin";
const MAX_USER_BYTES: usize = 256;
pub(crate) const MAX_GROUPS: usize = 32;

/// Groups that one agent impersonates, and users besides those under `fairlead:`.
#[derive(Debug, Clone)]
pub(crate) struct ImpersonationRules {
    groups: Vec<String>,
    /// Users that admins of the hub may request with `kubectl --as`.
    users: Vec<String>,
}

/// Checked user and groups. Only [`ImpersonationRules::admit`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Impersonation {
    user: HeaderValue,
    groups: Vec<HeaderValue>,
    is_admin: bool,
}

impl Impersonation {
    /// Whether an admin of the hub sent the request. Only admins may name another user with `kubectl --as`.
    pub(crate) fn is_admin(&self) -> bool {
        self.is_admin
    }

    pub(crate) fn user(&self) -> &HeaderValue {
        &self.user
    }

    pub(crate) fn groups(&self) -> &[HeaderValue] {
        &self.groups
    }
}

impl ImpersonationRules {
    /// Rules with Fairlead's own groups, those of the tenant, and the site operator's additions.
    pub(crate) fn new(tenant: &TenantId, allow_groups: &[String], allow_as: &[String]) -> Self {
        let own = impersonation::groups(tenant).into_iter();
        let allowed = allow_groups
            .iter()
            .filter(|group| !is_system(group))
            .cloned();
        ImpersonationRules {
            groups: own.chain(allowed).collect(),
            users: (allow_as.iter().filter(|user| !is_system(user)).cloned()).collect(),
        }
    }

    /// Checks the user of `kubectl --as`. The request has no other names: the API server adds the groups.
    fn admit_as(&self, headers: &HeaderMap) -> Result<Impersonation, Failure> {
        let mut users = headers.get_all(&AS_USER).iter();
        let (Some(user), None) = (users.next(), users.next()) else {
            return Err(refused("the hub named more than one user"));
        };
        if headers.contains_key(&USER) || headers.contains_key(&GROUP) {
            return Err(refused("the hub named two users"));
        }
        let is_listed = |listed: &String| listed.as_bytes() == user.as_bytes();
        if !self.users.iter().any(is_listed) {
            return Err(Failure::because(
                Code::NoImpersonation,
                format_args!("the agent's --allow-as does not list {user:?}"),
            ));
        }
        Ok(Impersonation {
            user: user.clone(),
            groups: Vec::new(),
            is_admin: true,
        })
    }

    /// Checks user and groups named by the hub.
    ///
    /// # Errors
    ///
    /// `FL-1501`; the cause quotes the name if it is printable. `FL-1202` for a user of `kubectl --as`.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Impersonation, Failure> {
        if headers.contains_key(&AS_USER) {
            return self.admit_as(headers);
        }
        let mut users = headers.get_all(&USER).iter();
        let (Some(user), None) = (users.next(), users.next()) else {
            return Err(refused("the hub named no user, or more than one"));
        };
        if !is_user(user.as_bytes()) {
            return Err(refused(&format!(
                "user {user:?} is not a name under {NAME_PREFIX}"
            )));
        }
        let mut groups = Vec::new();
        for (count, group) in headers.get_all(&GROUP).iter().enumerate() {
            if count == MAX_GROUPS {
                return Err(refused(&format!(
                    "the hub named more than {MAX_GROUPS} groups"
                )));
            }
            if !self.allows(group.as_bytes()) {
                // The site may not have chosen the namespace: RBAC has no right to grant then.
                if is_namespace_group(group.as_bytes()) {
                    continue;
                }
                return Err(refused(&format!(
                    "group {group:?} is not in the agent's list"
                )));
            }
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        let is_admin = groups.iter().any(|group| is_admin_group(group.as_bytes()));
        Ok(Impersonation {
            user: user.clone(),
            groups,
            is_admin,
        })
    }

    /// Whether a group named by the hub is impersonated.
    pub(crate) fn allows(&self, group: &[u8]) -> bool {
        self.groups
            .iter()
            .any(|allowed| allowed.as_bytes() == group)
    }
}

/// Checks the values of `--allow-group` and `--allow-as`.
///
/// # Errors
///
/// `FL-4101` for names under `system:` and invalid names.
pub(crate) fn check_allowed(groups: &[String], users: &[String]) -> Result<(), Failure> {
    let groups = groups.iter().map(|name| ("group", name));
    let users = users.iter().map(|name| ("user", name));
    for (kind, name) in groups.chain(users) {
        if is_system(name) {
            return Err(Failure::because(
                Code::BadConfig,
                format_args!("{kind} {name:?} is never impersonated"),
            ));
        }
        if name.is_empty() || name.trim() != name || HeaderValue::from_str(name).is_err() {
            return Err(Failure::because(
                Code::BadConfig,
                format_args!("{name:?} cannot be a {kind}"),
            ));
        }
    }
    Ok(())
}

fn is_system(group: &str) -> bool {
    group
        .trim()
        .get(..SYSTEM_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SYSTEM_PREFIX))
}

/// Whether a group that is not allowed is left out, instead of a refusal of the request.
pub(crate) fn is_namespace_group(group: &[u8]) -> bool {
    let group = std::str::from_utf8(group);
    group.is_ok_and(impersonation::is_namespace_group)
}

/// Whether the members of this group are admins of the hub.
pub(crate) fn is_admin_group(group: &[u8]) -> bool {
    group == ADMIN_GROUP.as_bytes()
}

/// Whether a user named by the hub may be impersonated.
pub(crate) fn is_user(user: &[u8]) -> bool {
    let Some(name) = user.strip_prefix(NAME_PREFIX.as_bytes()) else {
        return false;
    };
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_@+:/=~".contains(byte);
    !name.is_empty() && name.len() <= MAX_USER_BYTES && name.iter().all(sane)
}

fn refused(why: &str) -> Failure {
    Failure::because(Code::AgentRefused, why)
}

#[cfg(test)]
mod tests;
