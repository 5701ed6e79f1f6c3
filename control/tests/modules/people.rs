//! An issuer of a test, and people with its tokens.

use std::{fs, path::Path};

use fairlead_control::Config;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Issuer whose keys are in a file.
pub(crate) struct People {
    key: EncodingKey,
    pub(crate) dir: TempDir,
}

impl People {
    pub(crate) const URL: &'static str = "https://login.corp.example";

    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let keys = json!({ "keys": [Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap()] });
        fs::write(dir.path().join("keys.json"), keys.to_string()).unwrap();
        People { key, dir }
    }

    /// Configures the issuer `corp` with these rules and further fields.
    pub(crate) fn configure(&self, config: &mut Config, fields: &str) {
        let file = self.dir.path().join("issuers.toml");
        let keys = self.dir.path().join("keys.json");
        let text = format!(
            "[issuer.corp]\nurl = \"{}\"\naudience = [\"fairlead\"]\nkeys_file = {:?}\n{fields}\n",
            People::URL,
            Path::new(&keys)
        );
        fs::write(&file, text).unwrap();
        config.issuers = Some(file);
    }

    /// A token of a person with these groups.
    pub(crate) fn sign(&self, sub: &str, groups: &[&str], expires: i64) -> SecretString {
        self.sign_claims(json!({ "sub": sub, "groups": groups, "exp": expires }))
    }

    pub(crate) fn sign_claims(&self, mut claims: Value) -> SecretString {
        claims["iss"] = People::URL.into();
        if claims["aud"].is_null() {
            claims["aud"] = "fairlead".into();
        }
        encode(&Header::new(Algorithm::ES256), &claims, &self.key)
            .unwrap()
            .into()
    }
}
