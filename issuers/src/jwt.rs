//! One issuer of JSON Web Tokens: selects its tokens, verifies signature and times, maps the
//! claims.

use std::sync::Arc;

use aws_lc_rs::digest;
use fairlead_api::{
    Failure, hex,
    resources::{ExchangeIssuer, SignInFlow, SignInIssuer},
};
use fairlead_seam::{AuthenticateError, SubjectProof};
use jsonwebtoken::{
    Algorithm, Header, Validation, dangerous, decode, decode_header, errors::ErrorKind,
};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::{
    config::{Issuer, Mapping},
    fetch,
    keys::{KeyLookup, KeySource, Keys},
    vouched::{ExchangeTerms, VouchError, Vouched},
};

/// Unverified content of a token.
pub(super) struct Unverified {
    header: Header,
    issuer: String,
}

impl Unverified {
    /// `None` if the text is no JSON Web Token with an issuer.
    pub(super) fn read(token: &str) -> Option<Self> {
        if token.split('.').count() != 3 {
            return None;
        }
        let header = decode_header(token).ok()?;
        // Used only to select the issuer by whose keys the token is verified.
        let claims: Value = dangerous::insecure_decode_claims(token).ok()?;
        Some(Unverified {
            header,
            issuer: claims.get("iss")?.as_str()?.to_owned(),
        })
    }
}

pub(super) struct JwtIssuer {
    name: String,
    url: Arc<str>,
    audience: Vec<String>,
    algorithms: Vec<Algorithm>,
    leeway: Duration,
    sign_in: Option<SignInIssuer>,
    exchange: Option<ExchangeTerms>,
    mapping: Mapping,
    keys: Keys,
}

impl JwtIssuer {
    /// Builds an issuer from its table.
    ///
    /// # Errors
    /// `FL-4101` if its CA file cannot be used.
    pub(super) fn new(config: Issuer) -> Result<Self, Failure> {
        let sign_in = sign_in(&config)?;
        let source = match config.keys_file {
            Some(path) => KeySource::File(path),
            None => {
                let table = format!("issuer.{}", config.name);
                let client = fetch::client(&table, config.ca_file.as_deref())?;
                KeySource::Discovery(config.url.clone(), client)
            }
        };
        Ok(JwtIssuer {
            name: config.name,
            url: config.url.into(),
            audience: config.audience,
            algorithms: config.algorithms,
            leeway: config.leeway.try_into().unwrap_or(Duration::ZERO),
            sign_in,
            exchange: config.exchange.map(|lifetime| ExchangeTerms {
                lifetime: lifetime.try_into().unwrap_or(Duration::HOUR),
                rules: digest_of(&config.mapping),
            }),
            mapping: config.mapping,
            keys: Keys::new(source),
        })
    }

    /// Properties for the sign-in of people; `None` if this issuer has no client for it.
    pub(super) const fn sign_in(&self) -> Option<&SignInIssuer> {
        self.sign_in.as_ref()
    }

    /// Terms of an exchange; `None` if the issuer's tokens are not exchanged.
    pub(super) const fn exchange(&self) -> Option<&ExchangeTerms> {
        self.exchange.as_ref()
    }

    pub(super) fn exchange_issuer(&self) -> Option<ExchangeIssuer> {
        let terms = self.exchange.as_ref()?;
        Some(ExchangeIssuer {
            name: self.name.clone(),
            url: self.url.to_string(),
            audience: self.audience.clone(),
            ttl_seconds: terms.lifetime.whole_seconds().unsigned_abs(),
        })
    }

    pub(super) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Loads the issuer's keys. Returns their number.
    pub(super) async fn check(&self) -> Result<usize, String> {
        match self.keys.find(None).await {
            KeyLookup::Keys(keys) => Ok(keys.len()),
            KeyLookup::None => Err("it has no key for signatures".to_owned()),
            KeyLookup::Unreachable(cause) => Err(cause),
        }
    }

    pub(super) fn is(&self, unverified: &Unverified) -> bool {
        unverified.issuer == *self.url
    }

    /// The caller, and the time until which the result may be cached.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    pub(super) async fn verify(
        &self,
        token: &str,
        unverified: &Unverified,
        now: OffsetDateTime,
    ) -> Result<(Vouched, OffsetDateTime), VouchError> {
        let rejected = |cause: &dyn std::fmt::Display| {
            AuthenticateError::BadToken(Some(format!("issuer {}: {cause}", self.name)))
        };
        if !self.algorithms.contains(&unverified.header.alg) {
            let cause = format_args!("algorithm {:?} is not allowed", unverified.header.alg);
            return Err(rejected(&cause).into());
        }
        let keys = match self.keys.find(unverified.header.kid.as_deref()).await {
            KeyLookup::Keys(keys) => keys,
            KeyLookup::None => return Err(rejected(&"unknown signing key").into()),
            KeyLookup::Unreachable(cause) => {
                let cause = format!("issuer {}: {cause}", self.name);
                return Err(AuthenticateError::IssuerDown(cause).into());
            }
        };
        let mut validation = Validation::new(unverified.header.alg);
        validation.set_audience(&self.audience);
        validation.set_issuer(&[&*self.url]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Checked below against the hub's own clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let mut problem = rejected(&"no key of the issuer verifies the signature");
        let mut verified = None;
        for key in keys {
            match decode::<Value>(token, &key, &validation) {
                Ok(data) => {
                    verified = Some(data.claims);
                    break;
                }
                Err(error) => match error.kind() {
                    // Another key may match.
                    ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => {}
                    _ => problem = rejected(&error),
                },
            }
        }
        let claims = verified.ok_or(problem)?;
        let until = self.times(&claims, now)?;
        let proof = self.proof(&claims);
        let vouched = self.mapping.apply(&self.url, &claims, Some(until), proof)?;
        Ok((vouched, until))
    }

    /// Tokens of the sign-in client have one set of scopes: a newer one with fewer rights means that rights were removed.
    fn proof(&self, claims: &Value) -> SubjectProof {
        let Some(sign_in) = &self.sign_in else {
            return SubjectProof::Signed;
        };
        let is_client = |it: &Value| it.as_str() == Some(&sign_in.client_id);
        let is_for_client = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_client),
            Some(one) => is_client(one),
            None => false,
        };
        match time_at(claims, "iat") {
            Some(issued) if is_for_client => SubjectProof::SignIn { issued },
            _ => SubjectProof::Signed,
        }
    }

    /// Checks `nbf` and `exp`; returns the expiry.
    fn times(
        &self,
        claims: &Value,
        now: OffsetDateTime,
    ) -> Result<OffsetDateTime, AuthenticateError> {
        let at = |name: &str| time_at(claims, name);
        let Some(expires) = at("exp") else {
            let cause = format!("issuer {}: claim exp is missing", self.name);
            return Err(AuthenticateError::BadToken(Some(cause)));
        };
        // Some issuers encode "never" as the last representable second.
        let until = expires.saturating_add(self.leeway);
        if now >= until {
            return Err(AuthenticateError::Expired);
        }
        if at("nbf").is_some_and(|not_before| now + self.leeway < not_before) {
            let cause = format!("issuer {}: the token is not valid yet", self.name);
            return Err(AuthenticateError::BadToken(Some(cause)));
        }
        Ok(until)
    }
}

/// A claim with seconds since 1970.
fn time_at(claims: &Value, name: &str) -> Option<OffsetDateTime> {
    let seconds = claims.get(name)?.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates to a value that is no valid date"
    )]
    OffsetDateTime::from_unix_timestamp(seconds as i64).ok()
}

fn sign_in(config: &Issuer) -> Result<Option<SignInIssuer>, Failure> {
    let Some(settings) = &config.sign_in else {
        return Ok(None);
    };
    let table = format!("issuer.{}", config.name);
    let device = settings.device.then_some(SignInFlow::Device);
    Ok(Some(SignInIssuer {
        name: config.name.clone(),
        url: config.url.clone(),
        client_id: settings.client_id.clone(),
        scopes: settings.scopes.clone(),
        audience: config.audience.clone(),
        flows: [SignInFlow::Browser].into_iter().chain(device).collect(),
        redirect_host: settings.redirect_host.clone(),
        ca: fetch::ca_pem(&table, config.ca_file.as_deref())?,
    }))
}

/// Digest of the rules of an issuer, equal on all hubs of one version.
fn digest_of(mapping: &Mapping) -> String {
    let digest = digest::digest(&digest::SHA256, format!("{mapping:?}").as_bytes());
    hex::encode(digest.as_ref().get(..8).unwrap_or_default())
}
