//! Nobody decides on the own request, also not with another credential.

use std::collections::BTreeSet;

use fairlead_registry::holder_of;
use fairlead_seam::Caller;
use fairlead_store::{
    View,
    model::{AccessHolder, TokenOwner},
};

/// Longest chain of tokens that own each other.
const MAX_CHAIN: usize = 16;

/// True if caller and holder may be one person: by name, token or subject, or because one owns the token of the other.
pub(super) fn is_same_person(view: &View, caller: &Caller, holder: &AccessHolder) -> bool {
    let one = Identities::of(view, &holder_of(caller));
    let other = Identities::of(view, holder);
    // A common owner alone says nothing: an admin makes tokens for many.
    !one.own.is_disjoint(&other.own)
        || !one.own.is_disjoint(&other.owners)
        || !one.owners.is_disjoint(&other.own)
}

/// Keys of a caller, and of the owners of its token.
struct Identities {
    own: BTreeSet<String>,
    owners: BTreeSet<String>,
}

impl Identities {
    fn of(view: &View, holder: &AccessHolder) -> Self {
        let mut own = BTreeSet::from([format!("name {}", holder.name)]);
        if let Some((issuer, sub)) = &holder.subject {
            own.insert(format!("subject {issuer}\n{sub}"));
        }
        own.extend(holder.token.as_ref().map(|id| format!("token {id}")));
        let mut owners = BTreeSet::new();
        let mut next = holder.token.clone();
        for _ in 0..MAX_CHAIN {
            let token = next.take().and_then(|id| view.token(&id).cloned());
            match token.and_then(|it| it.value.owner.clone()) {
                Some(TokenOwner::Token { token }) => {
                    owners.insert(format!("token {token}"));
                    next = Some(token);
                }
                Some(TokenOwner::Person(person)) => {
                    owners.insert(format!("name {}", person.name));
                    owners.insert(format!("subject {}\n{}", person.issuer, person.sub));
                }
                None => break,
            }
        }
        Identities { own, owners }
    }
}
