//! Callers and grants that this thread has checked before, for as long as nothing has changed that they depend on.
//!
//! All entries end with the first change of access in the store, and each caller at the first expiry among its token and
//! the owners of that. An answer that depends on more is never kept: people, issuers, roles for a time, labels of clusters.

use std::{cell::RefCell, sync::Arc};

use fairlead_api::ClusterId;
use fairlead_seam::{Caller, Grant};
use fairlead_store::{
    View,
    model::{Token, TokenOwner},
};
use subtle::ConstantTimeEq;
use time::{Duration, OffsetDateTime};

use crate::{grants, owners::MAX_OWNER_CHAIN, registry::Registry, tokens::TokenHash};

/// Entries of a thread, of callers and of grants. Each place has one, and the latest stays.
const MAX_KEPT_ENTRIES: usize = 64;
/// Interval at which the use of a known token is noted.
const USE_INTERVAL: Duration = Duration::seconds(1);

thread_local! {
    static KNOWN: RefCell<KnownAccess> = const { RefCell::new(KnownAccess::EMPTY) };
}

struct KnownAccess {
    /// Run of the registry, and the view that all entries are true of.
    of: Option<(u32, Arc<View>)>,
    callers: Vec<Option<KnownCaller>>,
    grants: Vec<Option<KnownGrant>>,
}

struct KnownCaller {
    hash: TokenHash,
    caller: Arc<Caller>,
    /// End of the entry.
    until: OffsetDateTime,
    /// Time of the last noted use.
    noted: OffsetDateTime,
}

struct KnownGrant {
    caller: Arc<Caller>,
    cluster: ClusterId,
    grant: Arc<Grant>,
}

impl KnownAccess {
    const EMPTY: KnownAccess = KnownAccess {
        of: None,
        callers: Vec::new(),
        grants: Vec::new(),
    };

    /// Forgets all entries that are not true of this view.
    fn follow(&mut self, run: u32, view: &Arc<View>) {
        match &mut self.of {
            Some((known_run, known)) if *known_run == run && Arc::ptr_eq(known, view) => {}
            Some((known_run, known)) if *known_run == run && known.has_same_access(view) => {
                *known = Arc::clone(view);
            }
            of => {
                *of = Some((run, Arc::clone(view)));
                self.callers.clear();
                self.grants.clear();
                self.callers.resize_with(MAX_KEPT_ENTRIES, || None);
                self.grants.resize_with(MAX_KEPT_ENTRIES, || None);
            }
        }
    }

    fn caller(&mut self, hash: &TokenHash) -> Option<&mut Option<KnownCaller>> {
        let [first, ..] = hash;
        self.callers.get_mut(usize::from(*first) % MAX_KEPT_ENTRIES)
    }

    fn grant(
        &mut self,
        caller: &Arc<Caller>,
        cluster: &ClusterId,
    ) -> Option<&mut Option<KnownGrant>> {
        let address = Arc::as_ptr(caller).addr() / align_of::<Caller>();
        let bytes = cluster.as_str().bytes();
        let place = bytes.fold(address, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        self.grants.get_mut(place % MAX_KEPT_ENTRIES)
    }
}

/// Calls `with` on the entries of this thread; `None` while it ends.
fn known<T>(with: impl FnOnce(&mut KnownAccess) -> Option<T>) -> Option<T> {
    let known =
        KNOWN.try_with(|known| known.try_borrow_mut().ok().and_then(|mut it| with(&mut it)));
    known.ok().flatten()
}

impl Registry {
    /// The caller of a token that this thread has checked, if a check would find the same again.
    pub(crate) fn recall_caller(&self, hash: &TokenHash) -> Option<Arc<Caller>> {
        let now = self.now();
        let view = self.store.view();
        let (caller, is_noted) = known(|known| {
            known.follow(self.run, &view);
            let place = known.caller(hash)?;
            let found = place.as_mut()?;
            if now >= found.until || !bool::from(found.hash.ct_eq(hash)) {
                return None;
            }
            let is_noted = now < found.noted + USE_INTERVAL;
            if !is_noted {
                found.noted = now;
            }
            Some((Arc::clone(&found.caller), is_noted))
        })?;
        if let Some(id) = caller.token.as_ref().filter(|_| !is_noted) {
            self.store.token_used(id);
        }
        Some(caller)
    }

    /// Keeps the caller of a checked token, unless the answer depends on more than the view and expiries.
    pub(crate) fn keep_caller(
        &self,
        view: &Arc<View>,
        hash: TokenHash,
        token: &Token,
        caller: &Caller,
    ) {
        let Some(until) = lasts_until(view, token, caller) else {
            return;
        };
        let entry = KnownCaller {
            hash,
            caller: Arc::new(caller.clone()),
            until,
            noted: self.now(),
        };
        known(|known| {
            known.follow(self.run, view);
            *known.caller(&hash)? = Some(entry);
            Some(())
        });
    }

    /// The grant of a kept caller, if a check would find the same again.
    pub(crate) fn recall_grant(
        &self,
        caller: &Arc<Caller>,
        cluster: &ClusterId,
    ) -> Option<Arc<Grant>> {
        let view = self.store.view();
        known(|known| {
            known.follow(self.run, &view);
            let found = known.grant(caller, cluster)?.as_ref()?;
            let is_same = Arc::ptr_eq(&found.caller, caller) && found.cluster == *cluster;
            is_same.then(|| Arc::clone(&found.grant))
        })
    }

    /// Keeps the grant of a kept caller.
    pub(crate) fn keep_grant(
        &self,
        view: &Arc<View>,
        caller: &Arc<Caller>,
        cluster: &ClusterId,
        grant: &Arc<Grant>,
    ) {
        let entry = KnownGrant {
            caller: Arc::clone(caller),
            cluster: cluster.clone(),
            grant: Arc::clone(grant),
        };
        known(|known| {
            known.follow(self.run, view);
            let mut callers = known.callers.iter().flatten();
            // Any other caller may depend on more than the view.
            if callers.any(|it| Arc::ptr_eq(&it.caller, caller)) {
                *known.grant(caller, cluster)? = Some(entry);
            }
            Some(())
        });
    }
}

/// First expiry among a token and its owners; `None` if its caller depends on more than these and the view.
fn lasts_until(view: &View, token: &Token, caller: &Caller) -> Option<OffsetDateTime> {
    let is_plain = |it: &Token| !it.replaces && !it.exchanged && it.roles.is_empty();
    let has_temporary = || {
        let key = grants::holder_of(caller).key();
        view.access_requests().len() > 0 && view.access_of(&key).next().is_some()
    };
    if !is_plain(token) || !caller.grants.is_empty() || has_temporary() {
        return None;
    }
    let mut until = token.expires;
    let mut owner = token.owner.as_ref();
    for _ in 0..=MAX_OWNER_CHAIN {
        let above = match owner {
            None => return Some(until),
            Some(TokenOwner::Person(_)) => return None,
            // Roles of an owner for a time may give the right to the token.
            Some(TokenOwner::Token { .. }) if view.access_requests().len() > 0 => return None,
            Some(TokenOwner::Token { token }) => view.token(token)?,
        };
        if !is_plain(&above.value) {
            return None;
        }
        until = until.min(above.value.expires);
        owner = above.value.owner.as_ref();
    }
    None
}
