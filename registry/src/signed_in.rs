//! Rights of people who sign in. A newer token with fewer rights voids the older ones, at all hubs of the store.
//!
//! The store keeps one document per person. It is written at the first sign-in, and whenever a token of the person has
//! other rights than the document.

use aws_lc_rs::digest;
use fairlead_api::Failure;
use fairlead_seam::{AuthenticateError, Caller, Subject, SubjectProof};
use fairlead_store::{
    Actor, Draft, StoreError, View,
    model::{Person, PersonRights, hex},
};
use time::{Duration, OffsetDateTime};
use tracing::{info, warn};

use crate::{error::RegistryError, person_roles, registry::Registry};

/// Time after which a person is forgotten, longer than any token of the sign-in lives.
const PERSON_RETENTION: Duration = Duration::days(30);
const NARROWED: &str =
    "the person has a newer token with fewer rights, or has signed out; sign in again";

/// A token of a person, as far as it matters here.
#[derive(Clone)]
struct Sighting {
    id: String,
    subject: Subject,
    issued: OffsetDateTime,
    rights: Option<PersonRights>,
}

/// Effect of a token on its person.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// The known rights stay as they are.
    None,
    /// The token has newer rights.
    Newer,
    /// A newer token has fewer rights.
    Void,
}

impl Sighting {
    /// `None` for subjects that are no people.
    fn of(subject: &Subject, caller: Option<&Caller>) -> Option<Self> {
        let SubjectProof::SignIn { issued } = subject.proof else {
            return None;
        };
        Some(Sighting {
            id: id_of(subject),
            subject: subject.clone(),
            issued: issued.replace_nanosecond(0).unwrap_or(issued),
            rights: caller.map(rights_of),
        })
    }

    fn effect(&self, known: Option<&Person>) -> Effect {
        let Some(known) = known else {
            // No hub has accepted a token of this person yet.
            return match self.rights {
                Some(_) => Effect::Newer,
                None => Effect::None,
            };
        };
        if known.rights == self.rights {
            return Effect::None;
        }
        let is_covered = match (&known.rights, &self.rights) {
            (_, None) => true,
            (Some(known), Some(own)) => known.cover(own),
            (None, Some(_)) => false,
        };
        // Times of issue have whole seconds: of two tokens of one second, the weaker one counts.
        match self.issued.cmp(&known.issued) {
            std::cmp::Ordering::Greater => Effect::Newer,
            std::cmp::Ordering::Equal if is_covered => Effect::Newer,
            _ if is_covered => Effect::None,
            _ => Effect::Void,
        }
    }
}

fn id_of(subject: &Subject) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    // The length separates both texts.
    hash.update(&subject.issuer.len().to_be_bytes());
    hash.update(subject.issuer.as_bytes());
    hash.update(subject.sub.as_bytes());
    let hash = hash.finish();
    hex::encode(hash.as_ref().get(..16).unwrap_or_default())
}

fn rights_of(caller: &Caller) -> PersonRights {
    PersonRights {
        name: caller.name.clone(),
        roles: person_roles::roles_of(caller),
    }
}

/// Checks that no newer token of the caller has fewer rights; from memory.
///
/// # Errors
/// [`AuthenticateError::BadToken`]
pub(crate) fn check(view: &View, caller: &Caller) -> Result<(), AuthenticateError> {
    let subject = caller.subject.as_ref();
    let Some(sighting) = subject.and_then(|it| Sighting::of(it, Some(caller))) else {
        return Ok(());
    };
    let known = view.person(&sighting.id);
    match sighting.effect(known.map(|it| &it.value)) {
        Effect::Void => Err(AuthenticateError::BadToken(Some(NARROWED.to_owned()))),
        Effect::None | Effect::Newer => Ok(()),
    }
}

/// Notes the rights of a valid token; `caller` is `None` if the person has no role here.
///
/// A store that cannot write refuses nobody: the next request notes the token again.
pub(crate) async fn note(registry: &Registry, subject: &Subject, caller: Option<&Caller>) {
    let Some(sighting) = Sighting::of(subject, caller) else {
        return;
    };
    let view = registry.store.view();
    let known = view.person(&sighting.id);
    if sighting.effect(known.map(|it| &it.value)) == Effect::Newer {
        write(registry, sighting).await;
    }
}

async fn write(registry: &Registry, sighting: Sighting) {
    let kept = sighting.clone();
    let decide = move |draft: &mut Draft| {
        let known = draft.person(&kept.id).map(|it| it.value.clone());
        let is_newer = kept.effect(known.as_ref()) == Effect::Newer;
        if is_newer {
            draft.put_person(Person {
                id: kept.id.clone(),
                issuer: kept.subject.issuer.to_string(),
                subject: kept.subject.sub.clone(),
                issued: kept.issued,
                rights: kept.rights.clone(),
            });
        }
        Ok::<_, StoreError>(is_newer)
    };
    match registry.store.change(Actor::Hub, decide).await {
        Ok(done) if done.value => {
            let rights = sighting.rights.as_ref();
            info!(
                issuer = &*sighting.subject.issuer,
                subject = sighting.subject.sub,
                roles = rights.map_or(0, |it| it.roles.len()),
                "rights of a person noted"
            );
        }
        Ok(_) => {}
        Err(error) => {
            let cause = Failure::from(RegistryError::from(error)).cause;
            warn!(cause, "rights of a person not noted");
        }
    }
}

/// Forgets people whose tokens have all expired; returns their number.
pub(crate) async fn forget(registry: &Registry) -> Result<usize, StoreError> {
    let before = registry.now() - PERSON_RETENTION;
    let decide = move |draft: &mut Draft| {
        let old = draft.people().filter(|it| it.value.issued < before);
        let old: Vec<String> = old.map(|it| it.value.id.clone()).collect();
        for id in &old {
            draft.delete_person(id)?;
        }
        Ok::<_, StoreError>(old.len())
    };
    Ok(registry.store.change(Actor::Hub, decide).await?.value)
}

#[cfg(test)]
mod tests;
