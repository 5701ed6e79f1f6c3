//! Validates settings of agents, of a cluster or of a tenant's template.

use fairlead_api::config::CollectorKind;
use fairlead_store::model::AgentSettings;

use fairlead_routes::InvalidValue;

/// Length of a SHA-256 hash in base64 without padding.
const FINGERPRINT_CHARS: usize = 43;

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
    let targets = settings.allow_connect.iter().flatten();
    let is_target = |target: &String| {
        let parts = target.rsplit_once(':');
        target.len() <= 261
            && parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if targets.clone().count() > 64 || !targets.clone().all(is_target) {
        return invalid("allowConnect: at most 64 targets, each host:port");
    }
    let confirmed = settings.gitops.as_ref();
    let confirmed = confirmed.and_then(|gitops| gitops.confirmed_key.as_deref());
    if confirmed.is_some_and(|key| !is_fingerprint(key)) {
        return invalid(
            "gitops.confirmedKey: a fingerprint, like `ssh-keygen -l` prints it: SHA256: and 43 characters",
        );
    }
    Ok(())
}

/// True for the form of OpenSSH: `SHA256:` and base64 without padding.
fn is_fingerprint(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.strip_prefix("SHA256:")
        .is_some_and(|hash| hash.len() == FINGERPRINT_CHARS && hash.bytes().all(is_base64))
}

#[cfg(test)]
mod tests;
