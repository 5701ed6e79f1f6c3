//! Hub of a command: by flag, by environment, or the current login.

use fairlead_api::{Code, Failure, HubUrl};

use crate::{
    environment::Environment,
    files,
    logins::{self, SavedLogin},
};

/// A hub, its CA and the stored login.
pub(super) struct Place {
    pub(super) url: HubUrl,
    pub(super) ca: Option<String>,
    pub(super) known: Option<SavedLogin>,
}

impl Place {
    /// The given hub, or else that of the environment, or else the current one.
    pub(super) fn of(environment: &Environment, hub: Option<&HubUrl>) -> Result<Self, Failure> {
        let asked = environment
            .get("FAIRLEAD_URL")
            .filter(|_| hub.is_none())
            .map(str::parse::<HubUrl>)
            .transpose();
        let asked = asked.map_err(|error| {
            Failure::because(Code::BadConfig, format_args!("FAIRLEAD_URL: {error}"))
        })?;
        let asked = asked.or_else(|| hub.cloned());
        let ca = environment
            .get("FAIRLEAD_CA_FILE")
            .map(|file| files::read(file.as_ref()))
            .transpose()?;
        let known = logins::load(environment)?.remove(asked.as_ref());
        let url = asked.or_else(|| known.as_ref().map(|hub| hub.url.clone()));
        Ok(Place {
            url: url.ok_or(Code::NotLoggedIn)?,
            ca: ca.or_else(|| known.as_ref().and_then(|hub| hub.ca.clone())),
            known,
        })
    }
}
