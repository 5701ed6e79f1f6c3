//! Callers of a configured issuer, next to callers with tokens of the hub.

use std::fs;

use fairlead_api::{Code, resources::Role};
use fairlead_control::Control;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::{
    people::People,
    rig::{FROM, Rig, admin, config},
};

const ISSUERS: &str = r#"
[issuer.corp]
url = "https://login.corp.example"
audience = ["fairlead"]
keys_file = "KEYS"
roles = [{ claim = "groups", value = "acme-ops", role = "operator", tenant = "t-default" }]
"#;

#[tokio::test]
async fn tokens_of_issuers_and_of_the_hub_coexist() {
    let dir = tempfile::tempdir().unwrap();
    let pair = rcgen::KeyPair::generate().unwrap();
    let key = EncodingKey::from_ec_der(&pair.serialize_der());
    let keys = json!({ "keys": [Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap()] });
    let (keys_file, file) = (
        dir.path().join("keys.json"),
        dir.path().join("issuers.toml"),
    );
    fs::write(&keys_file, keys.to_string()).unwrap();
    fs::write(&file, ISSUERS.replace("KEYS", keys_file.to_str().unwrap())).unwrap();
    let mut config = config(&dir);
    config.issuers = Some(file);
    let control = Control::open(config).await.unwrap();
    let authenticator = control.seam().authenticator;
    let sign = |groups: Value| {
        let expires = (OffsetDateTime::now_utc() + time::Duration::hours(1)).unix_timestamp();
        let claims = json!({
            "iss": "https://login.corp.example",
            "aud": "fairlead",
            "sub": "jane",
            "exp": expires,
            "groups": groups,
        });
        encode(&Header::new(Algorithm::ES256), &claims, &key).unwrap()
    };

    let jane = sign(json!(["acme-ops"]));
    let caller = authenticator
        .authenticate(&jane.into(), FROM)
        .await
        .unwrap();
    assert_eq!(
        (caller.name.as_str(), caller.role),
        ("corp.jane", Role::Operator)
    );
    assert_eq!(caller.tenant.unwrap().as_str(), "t-default");
    let guest = sign(json!(["guests"])).into();
    let refused = authenticator.authenticate(&guest, FROM).await.unwrap_err();
    assert_eq!(refused.code(), Code::NoRole);

    let own = control
        .mint_token(fairlead_api::resources::CreateToken {
            name: "ci".to_owned(),
            role: Role::Viewer,
            tenant: None,
            cluster: None,
            ttl_seconds: None,
        })
        .await
        .unwrap();
    let caller = authenticator.authenticate(&own.token, FROM).await.unwrap();
    assert_eq!(caller.name, "ci");
    for nobodys in ["flt_0000", "a.b.c", "x"] {
        let refused = authenticator
            .authenticate(&nobodys.into(), FROM)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::BadToken, "{nobodys}");
    }
    control.close().await;
}

#[tokio::test]
async fn no_token_has_the_name_of_an_issuers_caller() {
    let people = People::new();
    let rules = "roles = [{ claim = \"groups\", value = \"ops\", role = \"viewer\" }]";
    let rig = Rig::with(|config| people.configure(config, rules)).await;
    for (name, status) in [("corp.jane", 400), ("corp", 201), ("a.corp.jane", 201)] {
        let asked = json!({ "name": name, "role": "viewer" });
        let made = rig.post(&admin(), "/v1/tokens", asked).await;
        assert_eq!(made.status, status, "{name}: {}", made.text);
    }

    // A token from before the issuer was configured.
    let dir = tempfile::tempdir().unwrap();
    let create = |tenant: Option<&str>| fairlead_api::resources::CreateToken {
        name: "corp.jane".to_owned(),
        role: Role::Viewer,
        tenant: tenant.map(|it| it.parse().unwrap()),
        cluster: None,
        ttl_seconds: None,
    };
    let before = Control::open(config(&dir)).await.unwrap();
    let of_all = before.mint_token(create(None)).await.unwrap();
    let of_tenant = before.mint_token(create(Some("t-default"))).await.unwrap();
    let authenticator = before.seam().authenticator;
    authenticator
        .authenticate(&of_all.token, FROM)
        .await
        .unwrap();
    drop(authenticator);
    before.close().await;
    drop(before);

    let mut config = config(&dir);
    people.configure(&mut config, rules);
    let control = Control::open(config).await.unwrap();
    let authenticator = control.seam().authenticator;
    let refused = authenticator.authenticate(&of_all.token, FROM).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::BadToken);
    assert!(refused.to_string().contains("reserved"), "{refused}");
    let caller = authenticator.authenticate(&of_tenant.token, FROM).await;
    assert_eq!(caller.unwrap().name, "t-default:corp.jane");
    control.close().await;
}
