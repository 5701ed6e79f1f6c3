//! `fairlead credential`: exec plugin of `client.authentication.k8s.io/v1` for kubectl and client-go.

use fairlead_api::{Code, Failure};
use fairlead_client::{
    Environment, ExchangeStore, HubClient, logins,
    sign_in::{SignInError, SignInStore},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{args, output, runtime::block_on};

const API_VERSION: &str = "client.authentication.k8s.io/v1";
/// Variable with the request of the client.
const EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";

pub(crate) fn run(args: &args::Credential, environment: &Environment) -> Result<(), Failure> {
    check_request(environment)?;
    if let Some(store) = ExchangeStore::of(environment, args.issuer_token_file.clone()) {
        let hub = HubClient::exchanging(environment, Some(&args.hub), store.clone())?;
        let cached = block_on(hub.exchanged(&store))??;
        let credential = credential(cached.token(), Some(cached.refresh_after()))?;
        return Ok(output::print(&format!("{credential}\n"))?);
    }
    let known = logins::load(environment)?.remove(Some(&args.hub));
    let step = format!("Run `fairlead login {}`.", args.hub);
    let not_known = || {
        let cause = format!("no login for {} is known", args.hub);
        Failure::with_cause(Code::NotLoggedIn, cause).next(step.clone())
    };
    let (token, expires) = match known.ok_or_else(not_known)?.token {
        Some(token) => (token, None),
        None => {
            let store = SignInStore::of(environment)?;
            let current = block_on(store.current(&args.hub))?;
            let sign_in = current.map_err(|error| match error {
                SignInError::Ended(_) | SignInError::NotStored(_) => {
                    Failure::from(error).next(step.clone())
                }
                other => other.into(),
            })?;
            (sign_in.token().clone(), Some(sign_in.refresh_after()))
        }
    };
    let credential = credential(&token, expires)?;
    Ok(output::print(&format!("{credential}\n"))?)
}

/// Refuses a client of another version of the protocol.
fn check_request(environment: &Environment) -> Result<(), Failure> {
    let Some(text) = environment.get(EXEC_INFO) else {
        return Ok(());
    };
    let request: Option<Value> = serde_json::from_str(text).ok();
    let version = request.as_ref().and_then(|it| it["apiVersion"].as_str());
    if version == Some(API_VERSION) {
        return Ok(());
    }
    let cause = format!("{EXEC_INFO} has another apiVersion than {API_VERSION}");
    let failure = Failure::because(Code::Usage, cause);
    Err(failure.next("Write the kubeconfig again with `fairlead kubeconfig`."))
}

/// The answer. Clients keep a token until its expiry, so the time of its refresh is given.
fn credential(token: &SecretString, expires: Option<OffsetDateTime>) -> Result<Value, Failure> {
    let token = token.expose_secret();
    let status = match expires {
        None => json!({ "token": token }),
        Some(expires) => {
            let expires = expires.replace_nanosecond(0).unwrap_or(expires);
            let text = expires.format(&Rfc3339);
            let text = text.map_err(|error| Failure::because(Code::Internal, error))?;
            json!({ "token": token, "expirationTimestamp": text })
        }
    };
    Ok(json!({ "apiVersion": API_VERSION, "kind": "ExecCredential", "status": status }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_stable_version_of_the_protocol_is_answered() {
        let with = |info: &str| check_request(&Environment::of(&[(EXEC_INFO, info)]));
        let good = format!("{{\"apiVersion\": \"{API_VERSION}\", \"spec\": {{}}}}");
        with(&good).unwrap();
        with("").unwrap();
        for bad in [&*good.replace("/v1", "/v1beta1"), "x", "{}"] {
            assert_eq!(with(bad).unwrap_err().code, Code::Usage, "{bad}");
        }
    }

    #[test]
    fn expiry_is_written_in_rfc_3339() {
        let at = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let made = credential(&"t".into(), Some(at)).unwrap();
        assert_eq!(
            made["status"]["expirationTimestamp"],
            "2027-01-15T08:00:00Z"
        );
        let made = credential(&"t".into(), None).unwrap();
        assert_eq!(made["status"], json!({ "token": "t" }));
    }
}
