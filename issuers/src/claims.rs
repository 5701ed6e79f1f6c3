//! Maps a verified token's claims to a name and the roles of all matching rules.

use std::sync::Arc;

use fairlead_registry::NoRole;
use fairlead_seam::{ClusterScope, GrantKind, GrantScope, ScopedGrant, Subject, SubjectProof};
use serde_json::Value;
use time::OffsetDateTime;

use super::{
    config::{ClusterMatch, Mapping, Pattern, Rule},
    vouched::Vouched,
};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// Claims of OpenID Connect Core 1.0, section 5.1.
const EMAIL_CLAIM: &str = "email";
const EMAIL_VERIFIED_CLAIM: &str = "email_verified";
/// The agent accepts users of 256 bytes, `fairlead:` included.
const MAX_NAME_BYTES: usize = 240;
/// Roles of one caller; further ones are ignored.
const MAX_GRANTS: usize = 64;

impl Mapping {
    /// Maps claims of this issuer to a caller.
    ///
    /// # Errors
    /// [`NoRole`] without a usable name or a matching role.
    pub(super) fn apply(
        &self,
        issuer: &Arc<str>,
        claims: &Value,
        expires: Option<OffsetDateTime>,
        proof: SubjectProof,
    ) -> Result<Vouched, NoRole> {
        let subject = find(claims, &self.name_claim)
            .and_then(Value::as_str)
            .unwrap_or_default();
        // Reviewed tokens have a user name instead.
        let sub = claims.get("sub").and_then(Value::as_str).unwrap_or(subject);
        let known = Subject {
            issuer: Arc::clone(issuer),
            sub: sub.to_owned(),
            proof,
        };
        let no_role = |cause| NoRole {
            cause,
            subject: (!sub.is_empty()).then(|| known.clone()),
            credential_ends: expires,
        };
        let is_email = self.name_claim == EMAIL_CLAIM;
        if is_email && !is_verified(claims) {
            let cause = "the issuer has not verified the email address of the token";
            return Err(no_role(cause.to_owned()));
        }
        let name = format!("{}{}", self.prefix, encoded(subject));
        // Names without a prefix are told from those of tokens by their `@`.
        if subject.is_empty() || name.len() > MAX_NAME_BYTES || (is_email && !subject.contains('@'))
        {
            return Err(no_role(format!(
                "claim {} is not a valid name",
                self.name_claim
            )));
        }
        let mut grants = self.grants_of(claims);
        let standing = grants.iter().enumerate();
        let standing = standing.filter(|(_, it)| it.kind == GrantKind::Standing);
        let widest = standing.min_by_key(|(_, it)| rank(&it.scope));
        let Some((at, _)) = widest else {
            return Err(no_role(format!("{name} matches no role rule")));
        };
        let own = grants.remove(at);
        Ok(Vouched {
            name,
            role: own.role,
            tenant: own.scope.tenant,
            clusters: own.scope.clusters,
            namespaces: own.scope.namespaces,
            grants: grants.into(),
            subject: known,
            expires,
        })
    }

    /// Roles of all matching rules. Of the rules with one scope the first decides.
    fn grants_of(&self, claims: &Value) -> Vec<ScopedGrant> {
        let mut grants: Vec<ScopedGrant> = Vec::new();
        for rule in &self.rules {
            if rule.claim == EMAIL_CLAIM && !is_verified(claims) {
                continue;
            }
            let Some(value) = find(claims, &rule.claim) else {
                continue;
            };
            let stars = rule.value.stars_in(value);
            for scope in stars.into_iter().filter_map(|star| rule.scope(star)) {
                if grants.len() >= MAX_GRANTS {
                    return grants;
                }
                let is_first = grants.iter().all(|it| it.scope != scope);
                if !is_first {
                    continue;
                }
                if let Some(role) = rule.break_glass {
                    grants.push(ScopedGrant {
                        role,
                        scope: scope.clone(),
                        kind: GrantKind::BreakGlass,
                    });
                }
                grants.push(ScopedGrant {
                    role: rule.role,
                    scope,
                    kind: GrantKind::Standing,
                });
            }
        }
        grants
    }

    /// True if a caller of this issuer may have the name.
    pub(super) fn can_produce(&self, name: &str) -> bool {
        match self.prefix.as_str() {
            "" => name.contains('@'),
            prefix => name.starts_with(prefix),
        }
    }
}

/// Order of scopes, the widest first.
fn rank(scope: &GrantScope) -> (bool, u8, bool) {
    let clusters = match scope.clusters {
        ClusterScope::All => 0,
        ClusterScope::Selected(_) => 1,
        ClusterScope::One(_) => 2,
    };
    (
        !scope.namespaces.is_empty(),
        clusters,
        scope.tenant.is_some(),
    )
}

impl Rule {
    /// Scope of a match; `None` if the text matched by the star is no cluster's id.
    fn scope(&self, star: &str) -> Option<GrantScope> {
        let clusters = match &self.cluster {
            None => ClusterScope::All,
            Some(ClusterMatch::Cluster(id)) => ClusterScope::One(id.clone()),
            Some(ClusterMatch::ByStar) => ClusterScope::One(star.parse().ok()?),
            Some(ClusterMatch::Selected(selector)) => ClusterScope::Selected(Arc::clone(selector)),
        };
        Some(GrantScope {
            tenant: self.tenant.clone(),
            clusters,
            namespaces: self.namespaces.clone(),
        })
    }
}

/// True if the issuer has verified the email address. Some issuers write the claim as a text.
fn is_verified(claims: &Value) -> bool {
    match claims.get(EMAIL_VERIFIED_CLAIM) {
        Some(Value::Bool(verified)) => *verified,
        Some(Value::String(text)) => text == "true",
        _ => false,
    }
}

/// A subject as a caller name. Different subjects have different names: the case is kept, and other
/// bytes are percent-encoded. Two service accounts never collide, because a namespace contains no dot.
fn encoded(subject: &str) -> String {
    let account = subject.strip_prefix(SERVICE_ACCOUNT);
    if let Some((namespace, name)) = account.and_then(|rest| rest.split_once(':')) {
        return format!("{}.{}", percent_encoded(namespace), percent_encoded(name));
    }
    percent_encoded(subject)
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A claim by path: dots separate nested names. A literal name with dots takes precedence
/// (`https://corp.example/roles`).
fn find<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(path) {
        return Some(found);
    }
    path.split('.')
        .try_fold(claims, |value, name| value.get(name))
}

impl Pattern {
    /// The texts matched by the star, in a string or in the items of a list; empty texts without a star.
    fn stars_in<'a>(&self, value: &'a Value) -> Vec<&'a str> {
        match value {
            Value::String(text) => self.star(text).into_iter().collect(),
            Value::Array(all) => {
                let texts = all.iter().filter_map(Value::as_str);
                texts.filter_map(|text| self.star(text)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn star<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Pattern::Exactly(whole) => (text == whole).then_some(""),
            Pattern::Starts(start) => text.strip_prefix(start.as_str()),
        }
    }
}
