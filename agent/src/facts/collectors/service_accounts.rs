//! `serviceAccountKeys`: issuer and public keys of the tokens of service accounts, so that others can check these
//! tokens without a path to the API server. Kubernetes lets each service account read them
//! (`system:service-account-issuer-discovery`).

use fairlead_api::facts::SERVICE_ACCOUNT_KEYS;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::facts::{
    bounded::short,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

/// Limit of keys; an API server has one, or two during a rotation.
const MAX_KEYS: usize = 16;
/// Limit of one field of a key, in bytes: the modulus of RSA with 8192 bits.
const MAX_FIELD_BYTES: usize = 1400;
/// Public fields of a key (RFC 7518, section 6).
const KEY_FIELDS: [&str; 8] = ["kty", "kid", "alg", "n", "e", "crv", "x", "y"];

#[derive(Default)]
pub(super) struct ServiceAccountKeys {
    issuer: Option<String>,
    keys: Vec<Value>,
    left_out: usize,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Map<String, Value>>,
}

impl Collector for ServiceAccountKeys {
    fn sources(&self) -> Vec<CollectorSource> {
        let discovery = "/.well-known/openid-configuration";
        vec![
            CollectorSource::object(discovery, "get /.well-known/openid-configuration"),
            CollectorSource::object("/openid/v1/jwks", "get /openid/v1/jwks"),
        ]
    }

    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        if source == 0 {
            let discovery: Discovery = serde_json::from_slice(object)?;
            self.issuer = Some(short(&discovery.issuer));
            return Ok(());
        }
        let set: KeySet = serde_json::from_slice(object)?;
        self.left_out += set.keys.len().saturating_sub(MAX_KEYS);
        let keys = set.keys.into_iter().take(MAX_KEYS);
        self.keys.extend(keys.map(public_fields));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let Some(issuer) = self.issuer.filter(|_| !self.keys.is_empty()) else {
            return Vec::new();
        };
        vec![CollectedFact {
            name: SERVICE_ACCOUNT_KEYS.to_owned(),
            value: json!({ "issuer": issuer, "keys": self.keys }),
            left_out: self.left_out,
        }]
    }
}

/// A cut number would be another key, so a field that is too long is left out as a whole.
fn public_fields(mut key: Map<String, Value>) -> Value {
    key.retain(|name, value| {
        let is_short = value.as_str().is_some_and(|it| it.len() <= MAX_FIELD_BYTES);
        KEY_FIELDS.contains(&name.as_str()) && is_short
    });
    key.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::collectors::facts_of;

    fn collector() -> Box<dyn Collector> {
        Box::new(ServiceAccountKeys::default())
    }

    #[test]
    fn issuer_and_public_fields_are_reported() {
        let modulus = "n".repeat(683);
        let key = json!({ "use": "sig", "kty": "RSA", "kid": "one", "n": modulus, "e": "AQAB", "d": "private" });
        let facts = facts_of(
            collector(),
            &[
                (
                    0,
                    json!({ "issuer": "https://kubernetes.default.svc", "jwks_uri": "https://10.0.0.1" }),
                ),
                (1, json!({ "keys": [key] })),
            ],
        );
        assert_eq!(
            facts,
            json!({ "serviceAccountKeys": {
                "issuer": "https://kubernetes.default.svc",
                "keys": [{ "kty": "RSA", "kid": "one", "n": modulus, "e": "AQAB" }],
            } })
        );
    }

    #[test]
    fn keys_without_an_issuer_are_no_fact() {
        let facts = facts_of(collector(), &[(1, json!({ "keys": [{ "kty": "RSA" }] }))]);
        assert_eq!(facts, json!({}));
    }

    #[test]
    fn a_field_that_is_too_long_is_left_out_as_a_whole() {
        let key = json!({ "kty": "RSA", "n": "n".repeat(MAX_FIELD_BYTES + 1) });
        let set = json!({ "keys": vec![key; MAX_KEYS + 2] });
        let mut collector = collector();
        let issuer = json!({ "issuer": "https://issuer" });
        collector.take(0, issuer.to_string().as_bytes()).unwrap();
        collector.take(1, set.to_string().as_bytes()).unwrap();
        let fact = collector.finish().pop().unwrap();
        assert_eq!(fact.value["keys"][0], json!({ "kty": "RSA" }));
        assert_eq!(fact.left_out, 2);
    }
}
