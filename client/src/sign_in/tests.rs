//! Each flow and each failure, against a scripted issuer.

use std::{collections::HashMap, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::{
    Code, Failure,
    resources::{SignInFlow, SignInIssuer},
};
use fairlead_dialer::ProxyRules;
use fairlead_testkit::fake_issuer::FakeIssuer;
use reqwest::Url;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::Environment;

const BROWSER_WAIT: Duration = Duration::from_secs(20);

fn issuer(fake: &FakeIssuer) -> SignInIssuer {
    SignInIssuer {
        name: "corp".to_owned(),
        url: fake.url(),
        client_id: "fairlead".to_owned(),
        scopes: vec!["openid".to_owned(), "offline_access".to_owned()],
        audience: vec!["fairlead".to_owned()],
        flows: vec![SignInFlow::Browser, SignInFlow::Device],
        redirect_host: "127.0.0.1".to_owned(),
        ca: Some(fake.ca_pem().to_owned()),
    }
}

async fn provider(fake: &FakeIssuer) -> Provider {
    let rules = ProxyRules::default();
    Provider::discover(issuer(fake), &rules).await.unwrap()
}

fn tokens(fake: &FakeIssuer, lifetime: i64, refresh: &str, more: Value) -> Value {
    let mut claims = json!({
        "iss": fake.url(),
        "aud": "fairlead",
        "sub": "jane",
        "exp": OffsetDateTime::now_utc().unix_timestamp() + lifetime,
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    json!({ "id_token": FakeIssuer::id_token(&claims), "refresh_token": refresh })
}

/// Plays the browser: sends a redirect with these parameters, and returns the answer.
async fn redirect(url: &str, parameters: &[(&str, &str)]) -> String {
    let asked: HashMap<_, _> = Url::parse(url)
        .unwrap()
        .query_pairs()
        .into_owned()
        .collect();
    let target = Url::parse_with_params(&asked["redirect_uri"], parameters).unwrap();
    let address = format!("127.0.0.1:{}", target.port().unwrap());
    let mut browser = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {}?{} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        target.path(),
        target.query().unwrap_or_default()
    );
    browser.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).await.unwrap();
    answer
}

fn parameter(url: &str, name: &str) -> String {
    let url = Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.unwrap().1.into_owned()
}

fn code_of<T>(result: Result<T, SignInError>) -> Code {
    Failure::from(result.err().unwrap()).code
}

#[tokio::test]
async fn browser_flow_proves_possession_of_its_verifier() {
    let fake = FakeIssuer::start();
    let provider = provider(&fake).await;
    let flow = BrowserSignIn::begin(&provider).await.unwrap();
    let url = flow.url().to_owned();
    let nonce = parameter(&url, "nonce");
    fake.answer(200, tokens(&fake, 3600, "r1", json!({ "nonce": nonce })));
    let state = parameter(&url, "state");
    let parameters = [("state", state.as_str()), ("code", "c1")];
    let (issued, page) = tokio::join!(flow.finish(BROWSER_WAIT), redirect(&url, &parameters));
    assert!(page.contains("Return to the terminal"), "{page}");
    let hub = "https://hub.example".parse().unwrap();
    StoredSignIn::new(hub, &provider, Some(&flow), issued.unwrap()).unwrap();
    let received = fake.received();
    let (path, form) = &received[0];
    assert_eq!((path.as_str(), form["code"].as_str()), ("/token", "c1"));
    assert_eq!(form["client_id"], "fairlead");
    assert_eq!(form["redirect_uri"], parameter(&url, "redirect_uri"));
    let hash = digest::digest(&digest::SHA256, form["code_verifier"].as_bytes());
    assert_eq!(
        parameter(&url, "code_challenge"),
        URL_SAFE_NO_PAD.encode(hash)
    );
    assert_eq!(parameter(&url, "code_challenge_method"), "S256");
}

#[tokio::test]
async fn redirect_of_another_request_or_issuer_is_refused() {
    let fake = FakeIssuer::start();
    for (parameters, expected) in [
        (
            vec![("state", "other"), ("code", "c")],
            Code::SignInMismatch,
        ),
        (vec![("code", "c")], Code::SignInMismatch),
        (
            vec![("state", "STATE"), ("state", "STATE")],
            Code::SignInMismatch,
        ),
        (
            vec![("state", "STATE"), ("code", "c"), ("iss", "https://evil")],
            Code::SignInMismatch,
        ),
        (
            vec![("state", "STATE"), ("error", "access_denied")],
            Code::SignInDenied,
        ),
        (
            vec![("state", "STATE"), ("error", "invalid_scope")],
            Code::SignInBadIssuer,
        ),
        (vec![("state", "STATE")], Code::SignInBadIssuer),
    ] {
        let provider = provider(&fake).await;
        let flow = BrowserSignIn::begin(&provider).await.unwrap();
        let url = flow.url().to_owned();
        let state = parameter(&url, "state");
        let with_state = |(name, value): &(&'static str, &'static str)| match *value {
            "STATE" => (*name, state.clone()),
            value => (*name, value.to_owned()),
        };
        let parameters: Vec<_> = parameters.iter().map(with_state).collect();
        let sent: Vec<_> = parameters.iter().map(|(a, b)| (*a, b.as_str())).collect();
        let (ended, _) = tokio::join!(flow.finish(BROWSER_WAIT), redirect(&url, &sent));
        assert_eq!(code_of(ended), expected, "{parameters:?}");
    }
    assert_eq!(fake.received(), []);
    // An issuer that announces RFC 9207 must name itself.
    fake.change_discovery(json!({ "authorization_response_iss_parameter_supported": true }));
    let provider = provider(&fake).await;
    let flow = BrowserSignIn::begin(&provider).await.unwrap();
    let url = flow.url().to_owned();
    let state = parameter(&url, "state");
    let parameters = [("state", state.as_str()), ("code", "c")];
    let (ended, _) = tokio::join!(flow.finish(BROWSER_WAIT), redirect(&url, &parameters));
    assert_eq!(code_of(ended), Code::SignInMismatch);
}

#[tokio::test]
async fn other_paths_and_silent_connections_do_not_end_the_wait() {
    let fake = FakeIssuer::start();
    let provider = provider(&fake).await;
    let flow = BrowserSignIn::begin(&provider).await.unwrap();
    let url = flow.url().to_owned();
    let state = parameter(&url, "state");
    let redirect_uri = Url::parse(&parameter(&url, "redirect_uri")).unwrap();
    let address = format!("127.0.0.1:{}", redirect_uri.port().unwrap());
    fake.answer(
        400,
        json!({ "error": "invalid_grant", "error_description": "used\u{1b}[2J" }),
    );
    let browse = async {
        let _silent = TcpStream::connect(&address).await.unwrap();
        let mut icon = TcpStream::connect(&address).await.unwrap();
        icon.write_all(b"GET /favicon.ico HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        icon.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        redirect(&url, &[("state", &state), ("code", "c")]).await
    };
    let (ended, _) = tokio::join!(flow.finish(BROWSER_WAIT), browse);
    let failure = Failure::from(ended.err().unwrap());
    assert_eq!(failure.code, Code::SignInBadIssuer);
    assert!(
        failure.cause.contains("invalid_grant: used[2J"),
        "{failure}"
    );
}

#[tokio::test]
async fn nobody_in_the_browser_is_a_timeout() {
    let fake = FakeIssuer::start();
    let provider = provider(&fake).await;
    let flow = BrowserSignIn::begin(&provider).await.unwrap();
    let ended = flow.finish(Duration::from_millis(20)).await;
    assert_eq!(code_of(ended), Code::SignInTimeout);
}

#[tokio::test]
async fn token_of_another_issuer_client_or_request_is_refused() {
    let fake = FakeIssuer::start();
    let provider = provider(&fake).await;
    let flow = BrowserSignIn::begin(&provider).await.unwrap();
    let nonce = flow.nonce().to_owned();
    let hub: fairlead_api::HubUrl = "https://hub.example".parse().unwrap();
    for (more, is_good) in [
        (json!({ "nonce": nonce }), true),
        (json!({ "nonce": nonce, "aud": ["x", "fairlead"] }), true),
        (json!({ "nonce": nonce, "iss": "https://evil" }), false),
        (json!({ "nonce": nonce, "aud": "other" }), false),
        (json!({ "nonce": "other" }), false),
        (json!({}), false),
    ] {
        let issued = serde_json::from_value(tokens(&fake, 60, "r", more.clone())).unwrap();
        let made = StoredSignIn::new(hub.clone(), &provider, Some(&flow), issued);
        match is_good {
            true => assert!(made.is_ok(), "{more}"),
            false => assert_eq!(code_of(made), Code::SignInMismatch, "{more}"),
        }
    }
}

#[tokio::test]
async fn issuer_that_is_away_or_names_another_is_reported() {
    let fake = FakeIssuer::start();
    fake.change_discovery(json!({ "issuer": "https://evil" }));
    let rules = ProxyRules::default();
    let other = Provider::discover(issuer(&fake), &rules).await;
    assert_eq!(code_of(other), Code::SignInBadIssuer);
    fake.change_discovery(json!({ "token_endpoint": "http://127.0.0.1:1/token" }));
    let plain = provider(&fake).await;
    let flow = plain.tokens(&[]).await;
    assert_eq!(code_of(flow), Code::SignInIssuerAway);
    let gone = issuer(&fake);
    drop(fake);
    let away = Provider::discover(gone, &rules).await;
    assert_eq!(code_of(away), Code::SignInIssuerAway);
}

#[tokio::test(start_paused = true)]
async fn device_flow_polls_until_the_person_has_decided() {
    let fake = FakeIssuer::start();
    let provider = provider(&fake).await;
    let begin = json!({
        "device_code": "d1", "user_code": "ABCD-EFGH", "expires_in": 300, "interval": 1,
        "verification_uri": "https://idp/device",
    });
    let pending = json!({ "error": "authorization_pending" });
    for (answers, expected) in [
        (
            vec![
                (400, pending.clone()),
                (400, json!({ "error": "slow_down" })),
            ],
            None,
        ),
        (vec![(502, json!("gateway"))], None),
        (
            vec![(400, json!({ "error": "access_denied" }))],
            Some(Code::SignInDenied),
        ),
        (
            vec![(400, json!({ "error": "expired_token" }))],
            Some(Code::SignInTimeout),
        ),
        (
            vec![(400, json!({ "error": "invalid_client" }))],
            Some(Code::SignInBadIssuer),
        ),
    ] {
        fake.answer(200, begin.clone());
        let flow = DeviceSignIn::begin(&provider).await.unwrap();
        assert_eq!(flow.user_code(), "ABCD-EFGH");
        assert_eq!(flow.verification_uri(), "https://idp/device");
        for (status, body) in answers {
            fake.answer(status, body);
        }
        if expected.is_none() {
            fake.answer(200, tokens(&fake, 3600, "r", json!({})));
        }
        match (flow.finish().await, expected) {
            (Ok(_), None) => {}
            (ended, Some(code)) => assert_eq!(code_of(ended), code),
            (Err(error), None) => panic!("{error}"),
        }
    }
    fake.answer(400, json!({ "error": "unauthorized_client" }));
    let refused = DeviceSignIn::begin(&provider).await;
    assert_eq!(code_of(refused), Code::SignInBadIssuer);
}

async fn stored(
    fake: &FakeIssuer,
    folder: &TempDir,
    lifetime: i64,
) -> (SignInStore, fairlead_api::HubUrl) {
    let path = folder.path().to_str().unwrap();
    let store = SignInStore::of(&Environment::of(&[("XDG_CONFIG_HOME", path)])).unwrap();
    let hub: fairlead_api::HubUrl = "https://[::1]:8443".parse().unwrap();
    let issued = serde_json::from_value(tokens(fake, lifetime, "r1", json!({}))).unwrap();
    let sign_in = StoredSignIn::new(hub.clone(), &provider(fake).await, None, issued).unwrap();
    store.save(&sign_in).unwrap();
    (store, hub)
}

#[tokio::test]
async fn sign_in_is_refreshed_once_by_many_callers() {
    let (fake, folder) = (FakeIssuer::start(), tempfile::tempdir().unwrap());
    let (store, hub) = stored(&fake, &folder, 3600).await;
    store.current(&hub).await.unwrap();
    assert_eq!(fake.received(), []);
    let (store, hub) = stored(&fake, &folder, 0).await;
    fake.answer(200, tokens(&fake, 3600, "r2", json!({})));
    let callers = (0..8).map(|_| {
        let (store, hub) = (store.clone(), hub.clone());
        tokio::spawn(async move { store.current(&hub).await.unwrap() })
    });
    for caller in callers.collect::<Vec<_>>() {
        let sign_in = caller.await.unwrap();
        assert_eq!(sign_in.refresh_token().unwrap().expose_secret(), "r2");
    }
    let received = fake.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].1["refresh_token"], "r1");
    let files = std::fs::read_dir(folder.path().join("fairlead/sign-ins")).unwrap();
    for file in files {
        let mode = std::os::unix::fs::MetadataExt::mode(&file.unwrap().metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn valid_token_outlasts_an_issuer_that_is_away() {
    let (fake, folder) = (FakeIssuer::start(), tempfile::tempdir().unwrap());
    // A fifth of the lifetime is left: the refresh begins at once.
    let (store, hub) = stored(&fake, &folder, 1000).await;
    let mut sign_in = store.load(&hub).unwrap();
    sign_in.issued -= time::Duration::hours(2);
    sign_in.expires -= time::Duration::seconds(900);
    store.save(&sign_in).unwrap();
    fake.answer(503, json!("away"));
    let kept = store.current(&hub).await.unwrap();
    assert_eq!(
        kept.token().expose_secret(),
        sign_in.token().expose_secret()
    );
    fake.answer(400, json!({ "error": "invalid_grant" }));
    assert_eq!(code_of(store.current(&hub).await), Code::SignInEnded);
    let (store, hub) = stored(&fake, &folder, -1).await;
    fake.answer(503, json!("away"));
    assert_eq!(code_of(store.current(&hub).await), Code::SignInIssuerAway);
}

#[tokio::test]
async fn logout_revokes_the_refresh_token() {
    let (fake, folder) = (FakeIssuer::start(), tempfile::tempdir().unwrap());
    let (store, hub) = stored(&fake, &folder, 3600).await;
    let removed = store.remove(&hub).unwrap().unwrap();
    assert_eq!(code_of(store.current(&hub).await), Code::NotLoggedIn);
    fake.answer(200, json!({}));
    assert!(store.revoke(&removed).await.unwrap());
    let (path, form) = fake.received().remove(0);
    assert_eq!((path.as_str(), form["token"].as_str()), ("/revoke", "r1"));
    fake.change_discovery(json!({ "revocation_endpoint": null }));
    assert!(!store.revoke(&removed).await.unwrap());
    assert!(store.remove(&hub).unwrap().is_none());
}
