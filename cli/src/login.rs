//! `fairlead login`: remembers hubs in `hubs.toml` of the configuration folder, mode 0600; the last one logged in to
//! is the one that commands talk to.

use std::path::PathBuf;

use fairlead_api::{Code, Failure, HubUrl, resources::HubInfo};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    args::Login, environment::Environment, files, hub_client::HubClient, output, settings::block_on,
};

/// One hub that was logged in to.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hub {
    pub(crate) url: HubUrl,
    #[serde(serialize_with = "exposed")]
    pub(crate) token: SecretString,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
}

/// For the one file that exists to keep it.
fn exposed<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

/// The content of `hubs.toml`, the current hub first.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hubs {
    #[serde(default)]
    hub: Vec<Hub>,
}

impl Hubs {
    /// The hub with this URL, else the current one, taken out.
    pub(crate) fn remove(&mut self, url: Option<&HubUrl>) -> Option<Hub> {
        let at = self
            .hub
            .iter()
            .position(|hub| url.is_none_or(|url| *url == hub.url))?;
        Some(self.hub.remove(at))
    }
}

fn file(environment: &Environment) -> Result<PathBuf, Failure> {
    Ok(environment.config_dir()?.join("hubs.toml"))
}

/// What was remembered; nothing where nothing was.
pub(crate) fn remembered(environment: &Environment) -> Result<Hubs, Failure> {
    // Without a home nothing was remembered, and FAIRLEAD_URL and FAIRLEAD_TOKEN are enough.
    let Ok(file) = file(environment) else {
        return Ok(Hubs::default());
    };
    if !file.exists() {
        return Ok(Hubs::default());
    }
    let told =
        |error| Failure::because(Code::BadConfig, format_args!("{}: {error}", file.display()));
    toml::from_str(&files::read(&file)?).map_err(told)
}

/// Makes this hub the current one.
pub(crate) fn remember(environment: &Environment, hub: Hub) -> Result<(), Failure> {
    let mut hubs = remembered(environment)?;
    hubs.hub.retain(|known| known.url != hub.url);
    hubs.hub.insert(0, hub);
    let text = toml::to_string(&hubs).map_err(|error| Failure::because(Code::Internal, error))?;
    files::write(&file(environment)?, &text)
}

pub(crate) fn run(args: &Login, environment: &Environment) -> Result<(), Failure> {
    let token: SecretString = files::read(&args.token_file)?.trim().into();
    let ca = args.ca_file.as_deref().map(files::read).transpose()?;
    let client = HubClient::new(
        args.url.clone(),
        token.clone(),
        ca.clone(),
        environment.proxy()?,
    )?;
    // Only what works is remembered.
    let info: HubInfo = block_on(client.get("/v1/hub"))??;
    remember(
        environment,
        Hub {
            url: args.url.clone(),
            token,
            ca,
        },
    )?;
    output::print(&format!(
        "Logged in to {} as {} (hub {}).\n",
        args.url, info.caller, info.version
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_login_is_the_current_one_and_urls_are_unique() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::of(&[("XDG_CONFIG_HOME", folder.path().to_str().unwrap())]);
        let hub = |url: &str, token: &str| Hub {
            url: url.parse().unwrap(),
            token: token.into(),
            ca: None,
        };
        for (url, token) in [("https://a", "1"), ("https://b", "2"), ("https://a", "3")] {
            remember(&environment, hub(url, token)).unwrap();
        }
        let mut hubs = remembered(&environment).unwrap();
        assert_eq!(hubs.hub.len(), 2);
        assert_eq!(
            hubs.remove(Some(&"https://b".parse().unwrap()))
                .unwrap()
                .token
                .expose_secret(),
            "2"
        );
        assert_eq!(hubs.remove(None).unwrap().token.expose_secret(), "3");
        let mode = std::os::unix::fs::MetadataExt::mode(
            &std::fs::metadata(file(&environment).unwrap()).unwrap(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
}
