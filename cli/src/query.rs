//! Query strings for the hub's API, filters by tenant, and values shortened for tables.

use fairlead_api::{Code, Failure, TenantId, percent};
use serde_json::Value;

use crate::hub_client::HubClient;

/// Checks that the tenant of a filter exists; an unknown tenant would yield an empty list without a reason.
///
/// # Errors
/// `FL-4107` for an unknown tenant.
pub(crate) async fn check_tenant(
    hub: &HubClient,
    tenant: Option<&TenantId>,
) -> Result<(), Failure> {
    let Some(id) = tenant else {
        return Ok(());
    };
    match hub.find::<Value>(&format!("/tenants/{id}")).await? {
        Some(_) => Ok(()),
        None => {
            let cause = format!("--tenant: no tenant with the id {id} is visible to you");
            let next = "List the tenants with `fairlead tenant list`.";
            Err(Failure::with_cause(Code::NotFound, cause).next(next))
        }
    }
}

/// Query string of the parameters that have a value.
pub(crate) fn query_of<'a>(
    given: impl IntoIterator<Item = (&'a str, Option<impl AsRef<str>>)>,
) -> String {
    let given = given.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", percent::encode(value.as_ref())))
    });
    given.collect::<Vec<_>>().join("&")
}

/// Shortens a value to one line of a table.
pub(crate) fn short(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    };
    // Values from clusters must not contain terminal escapes.
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.clone().take(MAX_CHARS).collect();
    if plain.count() > MAX_CHARS {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_value_is_one_line() {
        assert_eq!(short(&json!(["a", "b"])), "a, b");
        assert_eq!(short(&json!("a\n\u{1b}[31m")), "a  [31m");
        assert_eq!(short(&json!("x".repeat(70))).chars().count(), 61);
    }
}
