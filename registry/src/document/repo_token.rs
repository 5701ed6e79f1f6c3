//! Access tokens that the hub makes for repositories (`gitRepo.accessToken`).

use std::collections::BTreeSet;

use fairlead_routes::{InvalidValue, invalid};
use fairlead_store::model::AccessTokenSettings;
use serde_json::Value;

/// Roles of a token.
const ROLES: [&str; 3] = ["reporter", "developer", "maintainer"];
/// Rights of a token.
const SCOPES: [&str; 6] = [
    "api",
    "read_api",
    "read_repository",
    "write_repository",
    "read_registry",
    "write_registry",
];
/// GitLab allows at most a year.
const MAX_LIFETIME_DAYS: u16 = 365;
/// Shorter ones would end between two checks of a hub that was away.
const MIN_LIFETIME_DAYS: u16 = 7;

/// Reads the settings.
///
/// # Errors
/// `FL-4109`
pub(super) fn read(given: Value) -> Result<AccessTokenSettings, InvalidValue> {
    let settings: AccessTokenSettings = serde_json::from_value(given)
        .map_err(|error| invalid(format_args!("accessToken: {error}")))?;
    let known: BTreeSet<&str> = SCOPES.into();
    let is_known = |it: &String| known.contains(it.as_str());
    if !ROLES.contains(&settings.role.as_str()) {
        let roles = ROLES.join(", ");
        return Err(invalid(format_args!(
            "accessToken.role: expected one of {roles}"
        )));
    }
    if settings.scopes.is_empty() || !settings.scopes.iter().all(is_known) {
        let scopes = SCOPES.join(", ");
        return Err(invalid(format_args!(
            "accessToken.scopes: expected some of {scopes}"
        )));
    }
    if !(MIN_LIFETIME_DAYS..=MAX_LIFETIME_DAYS).contains(&settings.lifetime_days) {
        return Err(invalid("accessToken.lifetimeDays: expected 7 to 365"));
    }
    Ok(settings)
}
