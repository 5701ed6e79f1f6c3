//! Login of the first admin: files with CA and token in the data folder, and log messages about them.

use std::path::{Path, PathBuf};

use fairlead_api::{
    Code, Failure, HubUrl,
    moment::timestamp,
    resources::{CreateToken, Role},
};
use fairlead_client::{HubClient, files, logins};
use fairlead_control::Control;
use fairlead_dialer::ProxyRules;
use fairlead_registry::TokenCondition;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tracing::{info, warn};

use super::settings::Settings;

/// Lifetime of the first token, in seconds.
const FIRST_TOKEN_TTL_SECONDS: u64 = 8 * 3600;

/// Paths of the files of the first login.
#[derive(Clone)]
pub(super) struct Ready {
    /// None if the platform operator made the certificate of the front.
    pub(super) ca_file: Option<PathBuf>,
    /// File with the token, which may have expired.
    token_file: PathBuf,
    /// None unless this is a dev hub.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Current hub of this user, for a dev hub.
    pub(super) current: Option<HubUrl>,
}

impl Ready {
    pub(super) fn to_json(&self, url: &HubUrl, admin_url: &str, plain_url: Option<&str>) -> String {
        let mut ready = json!({
            "url": url,
            "admin_url": admin_url,
            "ca_file": self.ca_file,
            "token_file": self.token_file,
        });
        if let Some(ready) = ready.as_object_mut() {
            if let Some(file) = &self.kubeconfig {
                ready.insert("kubeconfig".to_owned(), json!(file));
            }
            if let Some(url) = plain_url {
                ready.insert("plain_url".to_owned(), url.into());
            }
        }
        format!("{ready}\n")
    }

    pub(super) fn client(&self, url: &HubUrl) -> Result<HubClient, Failure> {
        let ca = self.ca_file.as_deref().map(files::read).transpose()?;
        let token = files::read(&self.token_file)?;
        HubClient::new(url.clone(), token.trim().into(), ca, ProxyRules::default())
    }
}

/// Writes the CA into the data folder, and a token for the first admin if there is no valid token.
pub(super) async fn first_login(
    settings: &Settings,
    control: &Control,
    url: &HubUrl,
) -> Result<Ready, Failure> {
    let file = |name: &str| -> Result<PathBuf, Failure> {
        let absolute = std::path::absolute(settings.data.join(name));
        absolute.map_err(|error| Failure::because(Code::DataDir, error))
    };
    let mut ready = Ready {
        ca_file: match settings.tls {
            Some(_) => None,
            None => Some(file("front-ca.pem")?),
        },
        token_file: file("admin.token")?,
        kubeconfig: settings
            .dev
            .as_ref()
            .map(|_| file("kubeconfig"))
            .transpose()?,
        current: None,
    };
    if let Some(ca) = &ready.ca_file {
        files::write(ca, &control.ca_pem())?;
    }
    let mint = match settings.dev {
        Some(_) => mint_admin(control, TokenCondition::Always, &ready.token_file).await?,
        None if control.is_new().await? => {
            mint_admin(control, TokenCondition::FirstToken, &ready.token_file).await?
        }
        None => false,
    };
    if let Some(environment) = &settings.dev {
        let ca = ready.ca_file.as_deref().map(files::read).transpose()?;
        let token = files::read(&ready.token_file)?.trim().into();
        let url = url.clone();
        let hub = logins::SavedLogin {
            url,
            token: Some(token),
            issuer: None,
            ca,
            dev: None,
        };
        let data = std::path::absolute(&settings.data);
        let data = data.map_err(|error| Failure::because(Code::DataDir, error))?;
        ready.current = Some(logins::add_dev_login(environment, hub, &data)?);
    }
    log_token_state(settings, control, &ready.token_file, mint);
    Ok(ready)
}

/// Logs whether the token file is valid, and the next step if it is not.
fn log_token_state(settings: &Settings, control: &Control, file: &Path, minted: bool) {
    let token_file = file.display();
    let token = files::read(file).ok();
    let token = token.map(|text| SecretString::from(text.trim()));
    let expires = token.and_then(|token| control.token_expiry(&token));
    match expires {
        Some(expires) if minted => {
            info!(%token_file, expires = timestamp(expires), "token of a first admin written");
        }
        Some(expires) if expires > control.now() => {
            info!(%token_file, expires = timestamp(expires), "token of the first admin is still valid");
        }
        _ => {}
    }
    if !control.has_admin() {
        let command = format!(
            "fairlead token create NAME --role admin --data {}",
            settings.data.display()
        );
        warn!(
            command,
            "no admin token is valid; the command makes one on this machine"
        );
    }
}

/// Makes a token of an admin; false if another hub has made the first one meanwhile.
async fn mint_admin(
    control: &Control,
    condition: TokenCondition,
    file: &Path,
) -> Result<bool, Failure> {
    let create = CreateToken {
        name: "admin".to_owned(),
        role: Role::Admin,
        tenant: None,
        cluster: None,
        ttl_seconds: Some(FIRST_TOKEN_TTL_SECONDS),
    };
    let keep = |token: &SecretString| {
        let text = format!("{}\n", token.expose_secret());
        files::write(file, &text).map_err(Failure::from)
    };
    match control.mint_token_if(condition, create, keep).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.code == Code::Conflict => {
            // Its token never became valid.
            let _ = std::fs::remove_file(file);
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}
