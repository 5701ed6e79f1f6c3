//! Owners of API tokens. A token is valid only while its owner has the right to have it: an owner that is deleted, expired
//! or locked, or that loses its role, takes its tokens along. Nothing is written for that; each authentication looks.

use std::sync::Arc;

use fairlead_routes::Right;
use fairlead_seam::{AuthenticateError, Caller, Subject, SubjectProof};
use fairlead_store::{
    View,
    model::{PersonOwner, Token, TokenOwner},
};
use time::OffsetDateTime;

use crate::{
    grants, locks, person_roles,
    registry::Registry,
    rights::{sees_tenant, visible},
};

/// Longest chain of tokens that own each other.
pub(crate) const MAX_OWNER_CHAIN: usize = 8;

impl Registry {
    /// The caller of a token.
    ///
    /// # Errors
    /// [`AuthenticateError`] if the token, or an owner above it, is void.
    pub(crate) fn caller_of(
        &self,
        view: &View,
        token: &Token,
    ) -> Result<Caller, AuthenticateError> {
        self.caller_in_chain(view, token, MAX_OWNER_CHAIN)
    }

    /// True for a token from before an issuer was configured, or made without a running hub. Names with a tenant or
    /// cluster in front are no person's.
    fn is_named_like_a_person(&self, token: &Token) -> bool {
        let is_bare = token.tenant.is_none() && token.cluster.is_none();
        is_bare && !token.exchanged && self.services.issuers.reserves(&token.name)
    }

    fn caller_in_chain(
        &self,
        view: &View,
        token: &Token,
        remaining: usize,
    ) -> Result<Caller, AuthenticateError> {
        let hub = view.authorities();
        if hub.is_some_and(|hub| !hub.value.admits_made_at(token.created)) {
            return Err(void(
                "it predates a restore of the hub, and no admin has confirmed it yet",
            ));
        }
        if self.now() >= token.expires {
            return Err(AuthenticateError::Expired);
        }
        if self.is_named_like_a_person(token) {
            return Err(void("its name is reserved for the callers of an issuer"));
        }
        let person = token.person().filter(|_| token.exchanged);
        let caller = Caller {
            name: token.caller_name(),
            token: Some(token.id.clone()),
            role: token.role,
            tenant: token.tenant.clone(),
            clusters: token.cluster.clone().into(),
            namespaces: Vec::new(),
            grants: Arc::default(),
            subject: person.map(subject_of),
            expires: Some(token.expires),
        };
        let caller = person_roles::with_roles(caller, &token.roles)
            .ok_or_else(|| void("its roles cannot be read"))?;
        let caller = self.unless_locked(view, caller)?;
        self.check_owner(view, token, remaining)?;
        Ok(caller)
    }

    /// Checks that the owner of a token may still have it.
    fn check_owner(
        &self,
        view: &View,
        token: &Token,
        remaining: usize,
    ) -> Result<(), AuthenticateError> {
        let Some(owner) = &token.owner else {
            return Ok(());
        };
        let caller = self.owner_as_caller(view, owner, remaining)?;
        if let Some(person) = token.person().filter(|_| token.exchanged) {
            let rules = self.services.issuers.exchange_rules(&person.issuer);
            if rules.is_none() || rules != token.exchange_rules {
                let cause = "the rules of its issuer have changed since the exchange";
                return Err(void(cause));
            }
        }
        match may_have(view, &caller, token) {
            true => Ok(()),
            false => Err(void(format_args!(
                "its owner {} no longer has the right to such a token",
                caller.name
            ))),
        }
    }

    /// The owner of tokens, with its present rights.
    ///
    /// # Errors
    /// [`AuthenticateError`] if the owner is void.
    pub(crate) fn owner_as_caller(
        &self,
        view: &View,
        owner: &TokenOwner,
        remaining: usize,
    ) -> Result<Caller, AuthenticateError> {
        match owner {
            TokenOwner::Token { token } => {
                let deleted = || void(format_args!("its owner, token {token}, was deleted"));
                let owner = view.token(token).ok_or_else(deleted)?;
                let too_long = || void("its owners are too many");
                let remaining = remaining.checked_sub(1).ok_or_else(too_long)?;
                let caller = self.caller_in_chain(view, &owner.value, remaining);
                caller.map_err(|error| match error {
                    AuthenticateError::Expired => {
                        void(format_args!("its owner, token {token}, has expired"))
                    }
                    AuthenticateError::BadToken(Some(cause)) => {
                        void(format_args!("its owner, token {token}, is void: {cause}"))
                    }
                    other => other,
                })
            }
            TokenOwner::Person(person) => {
                if !self.services.issuers.knows(&person.issuer) {
                    let cause = format_args!("the issuer of its owner {} is unknown", person.name);
                    return Err(void(cause));
                }
                let no_role = || {
                    void(format_args!(
                        "its owner {} had no role at the last sign-in",
                        person.name
                    ))
                };
                let caller = Caller {
                    name: person.name.clone(),
                    token: None,
                    role: person.role.ok_or_else(no_role)?,
                    tenant: person.tenant.clone(),
                    clusters: person.cluster.clone().into(),
                    namespaces: Vec::new(),
                    grants: Arc::default(),
                    subject: Some(subject_of(person)),
                    expires: None,
                };
                self.unless_locked(view, caller)
            }
        }
    }

    pub(crate) fn unless_locked(
        &self,
        view: &View,
        caller: Caller,
    ) -> Result<Caller, AuthenticateError> {
        let now = self.now();
        match locks::lock_of_caller(view, &caller, now) {
            None => Ok(grants::with_temporary(view, caller, now)),
            Some(lock) => Err(AuthenticateError::Locked(lock)),
        }
    }

    /// Reason for which a token is void ahead of its expiry.
    pub(crate) fn fallen(&self, view: &View, token: &Token) -> Option<String> {
        match self.caller_of(view, token) {
            Ok(_) | Err(AuthenticateError::Expired) => None,
            Err(AuthenticateError::BadToken(Some(cause)) | AuthenticateError::Locked(cause)) => {
                Some(cause)
            }
            Err(other) => Some(other.to_string()),
        }
    }
}

/// True if a caller with these rights may have the token. The subject of an exchanged token needs no right to make tokens,
/// but exactly the rights of the token.
pub(crate) fn may_have(view: &View, owner: &Caller, token: &Token) -> bool {
    if token.exchanged {
        let clusters = token.cluster.clone().into();
        return (owner.role, &owner.tenant, &owner.clusters)
            == (token.role, &token.tenant, &clusters);
    }
    let is_in_scope = match (&token.cluster, &token.tenant) {
        (Some(cluster), _) => visible(view, owner, cluster.as_str()).is_ok(),
        (None, Some(tenant)) => sees_tenant(view, owner, tenant),
        (None, None) => owner.tenant.is_none(),
    };
    Right::TOKENS.allows(owner) && is_in_scope
}

/// The caller as an owner of tokens; `None` for the hub itself. A newer sign-in with other rights wins over the rights of the
/// request.
pub(crate) fn as_owner(view: &View, caller: &Caller) -> Option<TokenOwner> {
    if let Some(id) = &caller.token {
        return Some(TokenOwner::Token { token: id.clone() });
    }
    let subject = caller.subject.as_ref()?;
    let present = person(subject, caller);
    let tokens = view.tokens_of_person(&subject.issuer, &subject.sub);
    let tokens = tokens.filter(|it| !it.value.exchanged);
    let newer = tokens.filter_map(|it| it.value.person());
    let newer = newer.filter(|it| present.is_older_than(it));
    let newest = newer.max_by_key(|it| it.credential_ends).cloned();
    Some(TokenOwner::Person(newest.unwrap_or(present)))
}

/// A caller of an issuer as an owner.
pub(crate) fn person(subject: &Subject, caller: &Caller) -> PersonOwner {
    PersonOwner {
        issuer: subject.issuer.to_string(),
        sub: subject.sub.clone(),
        name: caller.name.clone(),
        // No token is limited to namespaces, or by a selector.
        role: (caller.namespaces.is_empty() && caller.clusters.selector().is_none())
            .then_some(caller.role),
        tenant: caller.tenant.clone(),
        cluster: caller.clusters.id().cloned(),
        credential_ends: caller.expires,
    }
}

fn subject_of(person: &PersonOwner) -> Subject {
    Subject {
        issuer: person.issuer.as_str().into(),
        sub: person.sub.clone(),
        // The token of the hub proves itself.
        proof: SubjectProof::Signed,
    }
}

fn void(cause: impl std::fmt::Display) -> AuthenticateError {
    AuthenticateError::BadToken(Some(cause.to_string()))
}

/// Number of tokens above an owner, or `None` if the token `id` is among them, or the chain is too long.
pub(crate) fn chain_length(view: &View, owner: &TokenOwner, id: Option<&str>) -> Option<usize> {
    let mut next = Some(owner.clone());
    for length in 0..MAX_OWNER_CHAIN {
        let Some(TokenOwner::Token { token }) = next else {
            return Some(length);
        };
        if id == Some(&token) {
            return None;
        }
        next = view.token(&token).and_then(|it| it.value.owner.clone());
    }
    None
}

/// End of the owner's right to a token; `None` without one.
pub(crate) fn latest_end(
    view: &View,
    owner: &TokenOwner,
    now: OffsetDateTime,
    person_token_ttl: std::time::Duration,
) -> Option<OffsetDateTime> {
    match owner {
        TokenOwner::Token { token } => view.token(token).map(|it| it.value.expires),
        TokenOwner::Person(_) => Some(now + person_token_ttl),
    }
}
