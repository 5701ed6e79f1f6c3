//! Rights of people at their last sign-in, kept with the tokens that they own. They are written only when they change.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fairlead_seam::{Caller, Subject};
use fairlead_store::{
    Actor, Draft, StoreError,
    model::{PersonOwner, Token, TokenOwner},
};
use time::OffsetDateTime;
use tracing::{info, warn};

use crate::{owners, registry::Registry};

impl Registry {
    /// Notes the rights of a person who has signed in; tokens of the person that exceed them fall.
    pub(crate) fn note_rights(&self, subject: &Subject, caller: &Caller) {
        self.note(subject, &owners::person(subject, caller));
    }

    /// Notes that a person has no role any more.
    pub(crate) fn note_no_role(&self, subject: &Subject, credential_ends: Option<OffsetDateTime>) {
        let view = self.store.view();
        let tokens = view.tokens_of_person(&subject.issuer, &subject.sub);
        let mut tokens = tokens.filter(|it| !it.value.exchanged);
        let Some(known) = tokens.find_map(|it| it.value.person().cloned()) else {
            return;
        };
        let present = PersonOwner {
            role: None,
            tenant: None,
            cluster: None,
            credential_ends,
            ..known
        };
        self.note(subject, &present);
    }

    fn note(&self, subject: &Subject, present: &PersonOwner) {
        let view = self.store.view();
        let mut tokens = view.tokens_of_person(&subject.issuer, &subject.sub);
        if !tokens.any(|it| has_changed(&it.value, present)) {
            return;
        }
        let pending = Arc::clone(&self.pending_people);
        if !lock(&pending).insert(subject.clone()) {
            return;
        }
        let (store, subject, present) = (self.store.clone(), subject.clone(), present.clone());
        tokio::spawn(async move {
            let (who, rights) = (subject.clone(), present.clone());
            let decide = move |draft: &mut Draft| update(draft, &who, &rights);
            match store.change(Actor::Hub, decide).await {
                Ok(done) => {
                    info!(
                        owner = present.name,
                        role = present.role.map(tracing::field::display),
                        tokens = done.value,
                        "rights of an owner of tokens changed"
                    );
                }
                Err(error) => warn!(owner = present.name, %error, "rights of an owner not written"),
            }
            lock(&pending).remove(&subject);
        });
    }
}

fn lock(pending: &Mutex<HashSet<Subject>>) -> MutexGuard<'_, HashSet<Subject>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_changed(token: &Token, present: &PersonOwner) -> bool {
    // Tokens of a CI differ by job, not only by subject: one job must not end the tokens of another.
    let known = token.person().filter(|_| !token.exchanged);
    known.is_some_and(|it| !it.has_rights_of(present) && !present.is_older_than(it))
}

fn update(
    draft: &mut Draft,
    subject: &Subject,
    present: &PersonOwner,
) -> Result<usize, StoreError> {
    let tokens = draft.tokens_of_person(&subject.issuer, &subject.sub);
    let tokens = tokens.filter(|it| has_changed(&it.value, present));
    let tokens: Vec<Token> = tokens.map(|it| it.value.clone()).collect();
    let count = tokens.len();
    for mut token in tokens {
        token.owner = Some(TokenOwner::Person(present.clone()));
        draft.put_token(token)?;
    }
    Ok(count)
}
