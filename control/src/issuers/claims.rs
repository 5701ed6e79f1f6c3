//! What a verified token's claims say here: a name, and the first role whose rule fits.

use fairlead_api::{ClusterId, Code, Failure};
use serde_json::Value;

use super::{
    Vouched,
    config::{Mapping, Named, Pattern},
};
use crate::registry::caller_name;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Mapping {
    /// # Errors
    /// `FL-1106` for somebody who has no role here, or no name.
    pub(super) fn apply(&self, claims: &Value) -> Result<Vouched, Failure> {
        let no_role = |cause: String| Failure::because(Code::NoRole, cause);
        let subject = find(claims, &self.name_claim)
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = format!("{}{}", self.prefix, plain(subject));
        if subject.is_empty() || caller_name(&name).is_err() {
            return Err(no_role(format!(
                "its {} makes no name here",
                self.name_claim
            )));
        }
        for rule in &self.rules {
            let Some(star) = find(claims, &rule.claim).and_then(|value| rule.value.star_in(value))
            else {
                continue;
            };
            let cluster = match &rule.cluster {
                None => None,
                Some(Named::Cluster(id)) => Some(id.clone()),
                Some(Named::ByStar) => match star.parse::<ClusterId>() {
                    Ok(id) => Some(id),
                    Err(_) => continue,
                },
            };
            return Ok(Vouched {
                name,
                role: rule.role,
                tenant: rule.tenant.clone(),
                cluster,
            });
        }
        Err(no_role(format!(
            "{name} has none of the claims that give one"
        )))
    }
}

/// A subject as it can be a name here. No two service accounts become the same: a namespace has no dot.
fn plain(subject: &str) -> String {
    match subject
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|rest| rest.split_once(':'))
    {
        Some((namespace, name)) => format!("{namespace}.{name}"),
        // As mail addresses are compared.
        None => subject.to_ascii_lowercase(),
    }
}

/// A claim by its name; names of nested ones have dots between them, and a name with dots in it (`https://corp.example/roles`)
/// comes first.
fn find<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(path) {
        return Some(found);
    }
    path.split('.')
        .try_fold(claims, |value, name| value.get(name))
}

impl Pattern {
    /// What the star stands for in a value, or in the first that fits of a list; empty without a star.
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
