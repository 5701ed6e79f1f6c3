//! Sign-in through an issuer of the hub, in a browser of this machine or of another one.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{SignInFlow, SignInIssuer, SignInOptions},
};
use fairlead_client::{
    Environment,
    sign_in::{BrowserSignIn, DeviceSignIn, Provider, SignInError, StoredSignIn},
};

use crate::{args, output};

/// Time for the person in the browser.
const BROWSER_WAIT: Duration = Duration::from_secs(300);

/// The issuer to use; the only one without `--issuer`.
///
/// # Errors
/// `FL-4137` if there is no such issuer, `FL-4117` if there are several.
pub(super) fn choose(
    options: SignInOptions,
    name: Option<&str>,
    hub: &HubUrl,
) -> Result<SignInIssuer, Failure> {
    let names: Vec<String> = options.issuers.iter().map(|it| it.name.clone()).collect();
    let mut issuers = options.issuers.into_iter();
    match name {
        Some(name) => issuers.find(|it| it.name == name).ok_or_else(|| {
            let cause = match names.as_slice() {
                [] => format!("{hub} has no issuer for people"),
                names => format!("{hub} has no issuer {name:?}, but {}", names.join(", ")),
            };
            Failure::because(Code::NoSignIn, cause)
        }),
        None if names.len() > 1 => {
            let cause = format!("{hub} has several issuers: {}", names.join(", "));
            Err(Failure::because(Code::Usage, cause).next("Name one with `--issuer NAME`."))
        }
        None => issuers
            .next()
            .ok_or_else(|| Failure::because(Code::NoSignIn, format!("{hub} has no issuer"))),
    }
}

/// Signs in; messages go to stderr.
pub(super) async fn sign_in(
    args: &args::Login,
    issuer: SignInIssuer,
    environment: &Environment,
) -> Result<StoredSignIn, Failure> {
    let provider = Provider::discover(issuer, &environment.proxy()?).await?;
    let permits_device = provider.issuer().flows.contains(&SignInFlow::Device);
    if args.device && !permits_device {
        let cause = format!(
            "the device flow is off for issuer {}",
            provider.issuer().name
        );
        let failure = Failure::because(Code::NoSignIn, cause);
        return Err(failure.next("Sign in without `--device`; `--no-browser` prints the address."));
    }
    let browser = Browser::of(environment);
    let without_display = browser.is_none() && !args.no_browser;
    if args.device || (without_display && permits_device && provider.has_device_flow()) {
        return Ok(device(args, &provider).await?);
    }
    let flow = BrowserSignIn::begin(&provider).await?;
    match browser.filter(|_| !args.no_browser) {
        Some(browser) => {
            output::note(&format!(
                "Opening the browser. If it stays closed, open {}",
                flow.url()
            ));
            if let Err(error) = browser.open(flow.url()) {
                output::note(&format!("The browser did not start: {error}."));
            }
        }
        None => output::note(&format!("Open {}", flow.url())),
    }
    let tokens = flow.finish(BROWSER_WAIT).await?;
    let hub = args.url.clone();
    Ok(StoredSignIn::new(hub, &provider, Some(&flow), tokens)?)
}

async fn device(args: &args::Login, provider: &Provider) -> Result<StoredSignIn, SignInError> {
    let flow = DeviceSignIn::begin(provider).await?;
    let (uri, code) = (flow.verification_uri(), flow.user_code());
    output::note(&format!(
        "Open {uri} on any machine, and enter or compare the code {code}."
    ));
    let tokens = flow.finish().await?;
    StoredSignIn::new(args.url.clone(), provider, None, tokens)
}

/// Program that opens an address.
struct Browser(String);

impl Browser {
    /// `$BROWSER`, or the opener of the desktop; `None` without a display.
    fn of(environment: &Environment) -> Option<Self> {
        if let Some(browser) = environment.get("BROWSER") {
            return Some(Browser(browser.to_owned()));
        }
        if cfg!(target_os = "macos") {
            return Some(Browser("open".to_owned()));
        }
        let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|it| environment.get(it).is_some());
        has_display.then(|| Browser("xdg-open".to_owned()))
    }

    fn open(&self, url: &str) -> std::io::Result<()> {
        let mut command = Command::new(&self.0);
        let command = command.arg(url).stdin(Stdio::null());
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(names: &[&str]) -> SignInOptions {
        let issuer = |name: &&str| SignInIssuer {
            name: (*name).to_owned(),
            url: format!("https://{name}.example"),
            client_id: "fairlead".to_owned(),
            scopes: Vec::new(),
            audience: Vec::new(),
            flows: vec![SignInFlow::Browser],
            redirect_host: "127.0.0.1".to_owned(),
            ca: None,
        };
        SignInOptions {
            issuers: names.iter().map(issuer).collect(),
            token_exchange: Vec::new(),
        }
    }

    #[test]
    fn one_of_several_issuers_must_be_named() {
        let hub = "https://hub.example".parse().unwrap();
        let choose = |names: &[&str], name| choose(options(names), name, &hub);
        assert_eq!(choose(&["a"], None).unwrap().name, "a");
        assert_eq!(choose(&["a", "b"], Some("b")).unwrap().name, "b");
        let several = choose(&["a", "b"], None).unwrap_err();
        assert_eq!(several.code, Code::Usage);
        assert!(several.cause.contains("a, b"), "{several}");
        assert_eq!(choose(&["a"], Some("c")).unwrap_err().code, Code::NoSignIn);
        assert_eq!(choose(&[], Some("c")).unwrap_err().code, Code::NoSignIn);
    }

    #[test]
    fn there_is_no_browser_without_a_display() {
        assert!(Browser::of(&Environment::of(&[("BROWSER", "lynx")])).is_some());
        assert!(Browser::of(&Environment::of(&[("DISPLAY", ":0")])).is_some());
        assert!(Browser::of(&Environment::of(&[])).is_none() || cfg!(target_os = "macos"));
    }
}
