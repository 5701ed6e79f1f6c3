//! Names to impersonate in a cluster, as values of headers. A thread keeps those of the grants that modules keep.

use std::{cell::RefCell, sync::Arc};

use fairlead_api::{Code, Failure, impersonation};
use fairlead_seam::{Caller, Grant};
use http::HeaderValue;

/// An agent takes 32 groups.
const MAX_NAMESPACE_GROUPS: usize = 24;
/// Names that a thread keeps, one per place: the latest stays.
const MAX_KEPT_NAMES: usize = 64;

thread_local! {
    static KNOWN: RefCell<[Option<KnownNames>; MAX_KEPT_NAMES]> = const { RefCell::new([const { None }; MAX_KEPT_NAMES]) };
}

/// The caller's own user and groups.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallerNames {
    pub(crate) user: HeaderValue,
    pub(crate) groups: Vec<HeaderValue>,
}

struct KnownNames {
    caller: Arc<Caller>,
    grant: Arc<Grant>,
    names: Arc<CallerNames>,
}

impl CallerNames {
    /// The names of a caller with this grant.
    ///
    /// # Errors
    /// `FL-5101` for a name that no header can have.
    pub(crate) fn of(caller: &Arc<Caller>, grant: &Arc<Grant>) -> Result<Arc<Self>, Failure> {
        // A grant that only this request has will not come again.
        if Arc::strong_count(grant) == 1 {
            return Self::new(caller, grant).map(Arc::new);
        }
        let place = Arc::as_ptr(grant).addr() / align_of::<Grant>() / 16 % MAX_KEPT_NAMES;
        let known = KNOWN.try_with(|known| {
            let known = known.borrow();
            let found = known.get(place)?.as_ref()?;
            let is_same = Arc::ptr_eq(&found.grant, grant) && Arc::ptr_eq(&found.caller, caller);
            is_same.then(|| Arc::clone(&found.names))
        });
        if let Ok(Some(names)) = known {
            return Ok(names);
        }
        let names = Arc::new(Self::new(caller, grant)?);
        let entry = KnownNames {
            caller: Arc::clone(caller),
            grant: Arc::clone(grant),
            names: Arc::clone(&names),
        };
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            known.get_mut(place).map(|place| place.replace(entry))
        });
        Ok(names)
    }

    fn new(caller: &Caller, grant: &Grant) -> Result<Self, Failure> {
        // The prefix keeps names of modules out of `system:`.
        let value = |text: String| {
            HeaderValue::try_from(text).map_err(|_| {
                Failure::because(
                    Code::Internal,
                    "the caller's name is not a valid header value",
                )
            })
        };
        Ok(CallerNames {
            user: value(impersonation::user(&caller.name))?,
            groups: groups_of(grant).map(value).collect::<Result<_, _>>()?,
        })
    }
}

/// Groups of a grant: of the role, of the role in the tenant, and of roles in namespaces.
fn groups_of(grant: &Grant) -> impl Iterator<Item = String> {
    let whole = grant.role.into_iter().flat_map(|role| {
        [
            impersonation::group(role),
            impersonation::tenant_group(&grant.tenant, role),
        ]
    });
    let namespaces = grant.namespaces.iter().take(MAX_NAMESPACE_GROUPS);
    whole.chain(namespaces.map(|it| impersonation::namespace_group(&it.namespace, it.role)))
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::Role;
    use fairlead_seam::NamespaceGrant;

    use super::*;
    use crate::front::samples;

    fn grant(role: Role) -> Arc<Grant> {
        Arc::new(Grant::of(role, "t-acme".parse().unwrap()))
    }

    #[test]
    fn grant_for_namespaces_names_no_role_in_the_cluster() {
        let grant = Grant {
            role: None,
            namespaces: vec![NamespaceGrant {
                namespace: "shop".parse().unwrap(),
                role: Role::Operator,
            }],
            ..Grant::of(Role::Viewer, "t-acme".parse().unwrap())
        };
        let groups: Vec<_> = groups_of(&grant).collect();
        assert_eq!(groups, ["fairlead:namespace:shop:operator"]);
    }

    #[test]
    fn kept_names_are_those_of_the_same_caller_and_grant_only() {
        let [ann, bob] = ["ann", "bob"].map(|name| Arc::new(samples::caller(name)));
        let (viewer, admin) = (grant(Role::Viewer), grant(Role::Admin));
        let kept = [Arc::clone(&viewer), Arc::clone(&admin)];
        let first = CallerNames::of(&ann, &viewer).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &CallerNames::of(&ann, &viewer).unwrap()
        ));
        let other = CallerNames::of(&bob, &viewer).unwrap();
        assert_eq!(other.user, "fairlead:bob");
        let stronger = CallerNames::of(&ann, &admin).unwrap();
        assert_eq!(stronger.groups[0], "fairlead:admin");
        assert_eq!(*CallerNames::of(&ann, &viewer).unwrap(), *first);
        drop(kept);
        let again = CallerNames::of(&ann, &grant(Role::Viewer)).unwrap();
        assert!(!Arc::ptr_eq(&first, &again));
    }
}
