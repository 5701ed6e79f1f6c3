//! Maps a verified token's claims to a name and the role of the first matching rule.

use std::sync::Arc;

use fairlead_api::ClusterId;
use fairlead_gateway::{Subject, seam::AuthenticateError};
use fairlead_registry::caller_name;
use serde_json::Value;
use time::OffsetDateTime;

use super::{
    config::{ClusterMatch, Mapping, Pattern},
    vouched::Vouched,
};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Mapping {
    /// Maps claims of this issuer to a caller.
    ///
    /// # Errors
    /// [`AuthenticateError::NoRole`] without a usable name or a matching role.
    pub(super) fn apply(
        &self,
        issuer: &Arc<str>,
        claims: &Value,
        expires: Option<OffsetDateTime>,
    ) -> Result<Vouched, AuthenticateError> {
        let no_role = AuthenticateError::NoRole;
        let subject = find(claims, &self.name_claim)
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = format!("{}{}", self.prefix, plain(subject));
        if subject.is_empty() || caller_name(&name).is_err() {
            return Err(no_role(format!(
                "claim {} is not a valid name",
                self.name_claim
            )));
        }
        // Reviewed tokens have a user name instead.
        let sub = claims.get("sub").and_then(Value::as_str);
        for rule in &self.rules {
            let Some(star) = find(claims, &rule.claim).and_then(|value| rule.value.star_in(value))
            else {
                continue;
            };
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
                subject: Subject {
                    issuer: Arc::clone(issuer),
                    sub: sub.unwrap_or(subject).to_owned(),
                },
                expires,
            });
        }
        Err(no_role(format!("{name} matches no role rule")))
    }
}

/// A subject as a caller name. Two service accounts never collide: a namespace contains no dot.
fn plain(subject: &str) -> String {
    match subject
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|rest| rest.split_once(':'))
    {
        Some((namespace, name)) => format!("{namespace}.{name}"),
        // Mail addresses compare case-insensitively.
        None => subject.to_ascii_lowercase(),
    }
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
