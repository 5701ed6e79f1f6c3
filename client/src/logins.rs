//! Stored logins: `hubs.toml` of the configuration folder, mode 0600. The first hub in the file is the current one.

use std::path::{Path, PathBuf};

use fairlead_api::{Code, Failure, HubUrl};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::{environment::Environment, files};

/// Login to one hub.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLogin {
    /// URL of the hub.
    pub url: HubUrl,
    /// Token of the caller; `None` for a sign-in through an issuer.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "exposed"
    )]
    pub token: Option<SecretString>,
    /// URL of the issuer of a sign-in; its tokens are in a file of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// CA of the hub's certificate, PEM; `None` for the system's CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Data folder of a hub of `fairlead dev`, which adds its login itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<PathBuf>,
}

/// Serializes a token for `hubs.toml`.
fn exposed<S: Serializer>(token: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&token.as_ref().map(ExposeSecret::expose_secret))
}

/// The content of `hubs.toml`, the current hub first.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLogins {
    /// Logins, at most one per URL.
    #[serde(default)]
    pub hub: Vec<SavedLogin>,
}

impl SavedLogins {
    /// Removes and returns the hub with this URL, or the current hub for `None`.
    pub fn remove(&mut self, url: Option<&HubUrl>) -> Option<SavedLogin> {
        let at = self
            .hub
            .iter()
            .position(|hub| url.is_none_or(|url| *url == hub.url))?;
        Some(self.hub.remove(at))
    }

    /// URLs of all hubs, the current hub first.
    pub fn urls(&self) -> impl Iterator<Item = &HubUrl> {
        self.hub.iter().map(|hub| &hub.url)
    }

    /// Makes the hub with this URL the current one; false if there is no login to it.
    pub fn choose(&mut self, url: &HubUrl) -> bool {
        let chosen = self.remove(Some(url));
        let is_known = chosen.is_some();
        self.hub.splice(0..0, chosen);
        is_known
    }

    /// Adds a dev hub. It becomes the current hub only if it was before, or if there is no other.
    fn add_dev(&mut self, hub: SavedLogin, data: &Path) {
        let is_same =
            |known: &SavedLogin| known.url == hub.url || known.dev.as_deref() == Some(data);
        let was_current = self.hub.first().is_some_and(is_same);
        let is_gone = |known: &SavedLogin| known.dev.as_ref().is_some_and(|data| !data.exists());
        self.hub.retain(|known| !is_same(known) && !is_gone(known));
        let at = match was_current {
            true => 0,
            false => self.hub.len(),
        };
        let dev = Some(data.to_owned());
        self.hub.splice(at..at, [SavedLogin { dev, ..hub }]);
    }
}

/// Path of the file with the logins.
fn file(environment: &Environment) -> Result<PathBuf, Failure> {
    Ok(environment.config_dir()?.join("hubs.toml"))
}

/// Reads the stored logins; empty if there is no file.
///
/// # Errors
/// `FL-4101` for an invalid file, `FL-4119` for an unreadable one.
pub fn load(environment: &Environment) -> Result<SavedLogins, Failure> {
    // Without a home folder there are no logins; FAIRLEAD_URL and FAIRLEAD_TOKEN are sufficient.
    let Ok(file) = file(environment) else {
        return Ok(SavedLogins::default());
    };
    if !file.exists() {
        return Ok(SavedLogins::default());
    }
    // The invalid line may contain a token, so the error does not quote it.
    let unreadable = |error: toml::de::Error| {
        let detail = format_args!("{}: {}", file.display(), error.message());
        let failure = Failure::because(Code::BadConfig, detail);
        failure.next("Correct the file, or remove it and log in again with `fairlead login URL`.")
    };
    toml::from_str(&files::read(&file)?).map_err(unreadable)
}

/// Writes the stored logins.
///
/// # Errors
/// `FL-4101` without a folder, `FL-4112` if the file cannot be written.
pub fn save(environment: &Environment, hubs: &SavedLogins) -> Result<(), Failure> {
    let text = toml::to_string(hubs).map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(files::write(&file(environment)?, &text)?)
}

/// Stores a login and makes its hub the current one.
///
/// # Errors
/// Those of [`load`] and [`save`].
pub fn add_login(environment: &Environment, hub: SavedLogin) -> Result<(), Failure> {
    let mut hubs = load(environment)?;
    hubs.hub.retain(|known| known.url != hub.url);
    hubs.hub.insert(0, hub);
    save(environment, &hubs)
}

/// Stores the login to a dev hub with this data folder, and returns the current hub.
///
/// # Errors
/// Those of [`load`] and [`save`].
pub fn add_dev_login(
    environment: &Environment,
    hub: SavedLogin,
    data: &Path,
) -> Result<HubUrl, Failure> {
    let url = hub.url.clone();
    let mut hubs = load(environment)?;
    hubs.add_dev(hub, data);
    save(environment, &hubs)?;
    Ok(hubs.urls().next().cloned().unwrap_or(url))
}

/// Next step for a rejected token, by the origin of the token.
pub(crate) fn new_token_step(
    environment: &Environment,
    url: &HubUrl,
    known: Option<&SavedLogin>,
) -> String {
    let variables = ["FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE"];
    let set = variables
        .into_iter()
        .find(|name| environment.get(name).is_some());
    match (set, known.is_some_and(|hub| hub.dev.is_some())) {
        (Some(name), _) => {
            format!(
                "{name} takes precedence over `fairlead login`: put a valid token there, or unset it."
            )
        }
        (None, true) => {
            "Start `fairlead dev` again; it logs in with a new token by itself.".to_owned()
        }
        (None, false) if known.is_some_and(|hub| hub.issuer.is_some()) => {
            format!("Sign in again with `fairlead login {url}`.")
        }
        (None, false) => {
            format!("Ask an admin of the hub for a new token, then run `fairlead login {url}`.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_login_is_current_and_urls_are_unique() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::of(&[("XDG_CONFIG_HOME", folder.path().to_str().unwrap())]);
        let hub = |url: &str, token: &str| SavedLogin {
            url: url.parse().unwrap(),
            token: Some(token.into()),
            issuer: None,
            ca: None,
            dev: None,
        };
        for (url, token) in [("https://a", "1"), ("https://b", "2"), ("https://a", "3")] {
            add_login(&environment, hub(url, token)).unwrap();
        }
        let mut hubs = load(&environment).unwrap();
        assert_eq!(hubs.hub.len(), 2);
        assert_eq!(
            hubs.remove(Some(&"https://b".parse().unwrap()))
                .unwrap()
                .token
                .unwrap()
                .expose_secret(),
            "2"
        );
        assert_eq!(
            hubs.remove(None).unwrap().token.unwrap().expose_secret(),
            "3"
        );
        let mode = std::os::unix::fs::MetadataExt::mode(
            &std::fs::metadata(file(&environment).unwrap()).unwrap(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    fn hub(url: &str) -> SavedLogin {
        SavedLogin {
            url: url.parse().unwrap(),
            token: Some("t".into()),
            issuer: None,
            ca: None,
            dev: None,
        }
    }

    fn urls(hubs: &SavedLogins) -> Vec<String> {
        hubs.urls().map(ToString::to_string).collect()
    }

    #[test]
    fn dev_hub_is_current_only_where_no_other_hub_was() {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut hubs = SavedLogins::default();
        hubs.add_dev(hub("https://dev:1"), data.path());
        assert_eq!(urls(&hubs), ["https://dev:1"]);
        // The same dev hub on another port stays current.
        hubs.add_dev(hub("https://dev:2"), data.path());
        assert_eq!(urls(&hubs), ["https://dev:2"]);
        hubs.add_dev(hub("https://dev:3"), other.path());
        assert_eq!(urls(&hubs), ["https://dev:2", "https://dev:3"]);
        hubs.hub.insert(0, hub("https://prod"));
        hubs.add_dev(hub("https://dev:4"), data.path());
        assert_eq!(
            urls(&hubs),
            ["https://prod", "https://dev:3", "https://dev:4"]
        );
        // A dev hub with a deleted data folder is removed.
        drop(other);
        hubs.add_dev(hub("https://dev:4"), data.path());
        assert_eq!(urls(&hubs), ["https://prod", "https://dev:4"]);
        assert!(hubs.choose(&"https://dev:4".parse().unwrap()));
        assert_eq!(urls(&hubs), ["https://dev:4", "https://prod"]);
        assert!(!hubs.choose(&"https://none".parse().unwrap()));
    }

    #[test]
    fn damaged_file_of_hubs_is_reported_without_its_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::of(&[("XDG_CONFIG_HOME", folder.path().to_str().unwrap())]);
        let text = "[[hub]]\nurl = \"https://a\"\ntoken = \"flt_secret\" x\n";
        files::write(&file(&environment).unwrap(), text).unwrap();
        let failure = load(&environment).err().unwrap();
        assert_eq!(failure.code, Code::BadConfig);
        assert!(!failure.to_string().contains("flt_secret"), "{failure}");
        assert!(
            failure.next_step().contains("fairlead login"),
            "{failure:?}"
        );
    }
}
