//! Maps a verified token's claims to a name and the role of the first matching rule.

use std::sync::Arc;

use fairlead_api::ClusterId;
use fairlead_registry::NoRole;
use fairlead_seam::Subject;
use serde_json::Value;
use time::OffsetDateTime;

use super::{
    config::{ClusterMatch, Mapping, Pattern},
    vouched::Vouched,
};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// Claims of OpenID Connect Core 1.0, section 5.1.
const EMAIL_CLAIM: &str = "email";
const EMAIL_VERIFIED_CLAIM: &str = "email_verified";
/// The agent accepts users of 256 bytes, `fairlead:` included.
const MAX_NAME_BYTES: usize = 240;

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
    ) -> Result<Vouched, NoRole> {
        let subject = find(claims, &self.name_claim)
            .and_then(Value::as_str)
            .unwrap_or_default();
        // Reviewed tokens have a user name instead.
        let sub = claims.get("sub").and_then(Value::as_str).unwrap_or(subject);
        let known = Subject {
            issuer: Arc::clone(issuer),
            sub: sub.to_owned(),
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
        for rule in &self.rules {
            let Some(star) = find(claims, &rule.claim).and_then(|value| rule.value.star_in(value))
            else {
                continue;
            };
            if rule.claim == EMAIL_CLAIM && !is_verified(claims) {
                continue;
            }
            let cluster = match &rule.cluster {
                None => None,
                Some(ClusterMatch::Cluster(id)) => Some(id.clone()),
                Some(ClusterMatch::ByStar) => match star.parse::<ClusterId>() {
                    Ok(id) => Some(id),
                    Err(_) => continue,
                },
            };
            return Ok(Vouched {
                name,
                role: rule.role,
                tenant: rule.tenant.clone(),
                cluster,
                subject: known,
                expires,
            });
        }
        Err(no_role(format!("{name} matches no role rule")))
    }

    /// True if a caller of this issuer may have the name.
    pub(super) fn can_produce(&self, name: &str) -> bool {
        match self.prefix.as_str() {
            "" => name.contains('@'),
            prefix => name.starts_with(prefix),
        }
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
    /// The text matched by the star, in a string or the first matching list item; empty without a
    /// star.
    fn star_in<'a>(&self, value: &'a Value) -> Option<&'a str> {
        match value {
            Value::String(text) => self.star(text),
            Value::Array(all) => all
                .iter()
                .filter_map(Value::as_str)
                .find_map(|text| self.star(text)),
            _ => None,
        }
    }

    fn star<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Pattern::Exactly(whole) => (text == whole).then_some(""),
            Pattern::Starts(start) => text.strip_prefix(start.as_str()),
        }
    }
}
