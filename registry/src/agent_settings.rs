//! Validates settings of agents, of a cluster or of a tenant's template.

mod gitops;

use fairlead_api::{config::CollectorKind, tcp::ConnectRule};
use fairlead_store::model::AgentSettings;

use fairlead_routes::InvalidValue;

/// Rejects settings that no agent could apply.
///
/// # Errors
/// `FL-4109`
pub fn check(settings: &AgentSettings) -> Result<(), InvalidValue> {
    let invalid = |detail: &str| Err(InvalidValue::because(detail));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    let version = settings.version.as_deref().unwrap_or("0");
    if version.is_empty() || version.len() > 64 || !version.chars().all(plain) {
        return invalid("version: 1 to 64 letters, digits, dots, dashes, plusses and underscores");
    }
    if let Some(facts) = &settings.facts {
        let prefixes = [&facts.annotation_prefixes, &facts.contact_prefixes];
        let mut prefixes = prefixes.into_iter().flatten();
        let count = prefixes
            .clone()
            .count()
            .max(facts.disabled_collectors.len());
        if count > 64 || prefixes.any(|it| it.is_empty() || it.len() > 253) {
            return invalid(
                "facts: at most 64 prefixes of 1 to 253 characters, and at most 64 disabled collectors",
            );
        }
        if facts.interval_seconds == Some(0) {
            return invalid("facts.intervalSeconds: at least one second");
        }
        let known = |name: &String| CollectorKind::ALL.iter().any(|kind| kind.as_str() == name);
        if let Some(unknown) = facts.disabled_collectors.iter().find(|name| !known(name)) {
            let unknown: String = unknown.chars().take(64).collect();
            let known = CollectorKind::ALL.map(CollectorKind::as_str).join(", ");
            let detail = format!(
                "facts.disabledCollectors: unknown collector {unknown:?}; expected one of {known}"
            );
            return invalid(&detail);
        }
    }
    let rules = settings.allow_connect.iter().flatten();
    if rules.clone().count() > 64 {
        return invalid("allowConnect: at most 64 rules");
    }
    for rule in rules {
        if let Err(error) = rule.parse::<ConnectRule>() {
            let rule: String = rule.chars().take(64).collect();
            return invalid(&format!("allowConnect: {rule:?}: {error}"));
        }
    }
    let problem = settings.gitops.as_ref().and_then(gitops::problem);
    if let Some(problem) = problem {
        return invalid(problem);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
