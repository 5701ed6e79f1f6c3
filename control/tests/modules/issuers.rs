//! Callers of a configured issuer, next to callers with tokens of the hub.

use std::fs;

use fairlead_api::{Code, resources::Role};
use fairlead_control::Control;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::rig::{FROM, config};

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
