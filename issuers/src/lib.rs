//! Callers vouched for by others: JSON Web Tokens of configured issuers (RFC 7519, OpenID Connect
//! Discovery 1.0; service accounts of a Kubernetes cluster are one kind), and tokens that a
//! configured cluster recognises (`TokenReview`).
//!
//! One TOML file configures the issuers, the meaning of their claims and the prefix of their names.
//! An unreachable issuer answers 503; a rejected token answers 401.

mod cache;
mod claims;
mod config;
mod fetch;
mod jwt;
mod keys;
mod review;
mod sign_in;
mod turns;
mod vouched;

use std::{net::IpAddr, path::Path};

use async_trait::async_trait;
use fairlead_api::{Code, Failure, resources::SignInOptions};
use fairlead_registry::{TokenVerifier, Verified};
use fairlead_seam::AuthenticateError;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

use cache::Cache;
use jwt::JwtIssuer;
use review::Reviewer;
use turns::ReviewLimiter;
use vouched::VouchError;

pub use sign_in::SignInModule;
pub use vouched::{ExchangeTerms, Vouched};

/// All configured issuers, in the order of their names.
#[derive(Default)]
pub struct Issuers {
    tokens: Vec<JwtIssuer>,
    reviewers: Vec<Reviewer>,
    known: Cache,
    limiter: ReviewLimiter,
}

impl Issuers {
    /// Reads the configuration file.
    ///
    /// # Errors
    /// `FL-4101` with all mistakes: file, line, table and field of each.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| mistakes(path, &[error.to_string()]))?;
        Issuers::read(path, &text)
    }

    /// Reads the text of a configuration file; `path` names it in error texts.
    ///
    /// # Errors
    /// `FL-4101`, as [`Issuers::open`].
    pub fn read(path: &Path, text: &str) -> Result<Self, Failure> {
        let config = config::read(text).map_err(|found| mistakes(path, &found))?;
        Ok(Issuers {
            tokens: config
                .issuers
                .into_iter()
                .map(JwtIssuer::new)
                .collect::<Result<_, _>>()?,
            reviewers: config
                .reviews
                .into_iter()
                .map(Reviewer::new)
                .collect::<Result<_, _>>()?,
            known: Cache::default(),
            limiter: ReviewLimiter::default(),
        })
    }

    /// True if the file configures at least one issuer or reviewing cluster.
    pub fn has_any(&self) -> bool {
        !self.tokens.is_empty() || !self.reviewers.is_empty()
    }

    /// Loads the keys of each issuer, and tries each reviewing cluster: its URL, and details or the cause of a failure.
    pub async fn check(&self) -> Vec<(String, Result<String, String>)> {
        let mut checked = Vec::new();
        for issuer in &self.tokens {
            let keys = issuer.check().await;
            let keys = keys.map(|count| format!("{count} keys for signatures"));
            checked.push((issuer.url().to_owned(), keys));
        }
        for reviewer in &self.reviewers {
            let reviewed = reviewer.check().await;
            let reviewed = reviewed.map(|()| "it reviews tokens".to_owned());
            checked.push((reviewer.url().to_owned(), reviewed));
        }
        checked
    }

    /// Resolves a token sent from `from`; `None` if no issuer here knows it.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    pub async fn vouch(
        &self,
        token: &SecretString,
        from: IpAddr,
        now: OffsetDateTime,
    ) -> Result<Option<Vouched>, AuthenticateError> {
        Ok(self.resolve(token, from, now).await?)
    }

    async fn resolve(
        &self,
        token: &SecretString,
        from: IpAddr,
        now: OffsetDateTime,
    ) -> Result<Option<Vouched>, VouchError> {
        if self.tokens.is_empty() && self.reviewers.is_empty() {
            return Ok(None);
        }
        let text = token.expose_secret();
        if let Some(known) = self.known.find(text, now) {
            return Ok(Some(known));
        }
        if let Some(unverified) = jwt::Unverified::read(text)
            && let Some(issuer) = self.tokens.iter().find(|issuer| issuer.is(&unverified))
        {
            let (vouched, until) = issuer.verify(text, &unverified, now).await?;
            self.known.put(text, &vouched, now, (until, until));
            return Ok(Some(vouched));
        }
        self.review(text, from, now).await
    }

    /// Resolves a token that is to be exchanged: one of an issuer that permits it.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    pub async fn vouch_for_exchange(
        &self,
        token: &SecretString,
        now: OffsetDateTime,
    ) -> Result<(Vouched, ExchangeTerms), AuthenticateError> {
        let refused = |cause: &str| AuthenticateError::BadToken(Some(cause.to_owned()));
        let text = token.expose_secret();
        let unverified = jwt::Unverified::read(text)
            .ok_or_else(|| refused("it is no JSON Web Token of an issuer"))?;
        let issuer = self.tokens.iter().find(|issuer| issuer.is(&unverified));
        let terms = issuer.and_then(|issuer| Some((issuer, issuer.exchange()?)));
        let (issuer, terms) =
            terms.ok_or_else(|| refused("tokens of its issuer are not exchanged"))?;
        let (vouched, _) = issuer.verify(text, &unverified, now).await?;
        Ok((vouched, terms.clone()))
    }

    async fn review(
        &self,
        text: &str,
        from: IpAddr,
        now: OffsetDateTime,
    ) -> Result<Option<Vouched>, VouchError> {
        if self.reviewers.is_empty() {
            return Ok(None);
        }
        let _permit = self.limiter.acquire(from).await?;
        // Another request may have resolved the token meanwhile.
        if let Some(known) = self.known.find(text, now) {
            return Ok(Some(known));
        }
        let mut unreachable = None;
        for reviewer in &self.reviewers {
            match reviewer.review(text).await {
                Ok(Some(vouched)) => {
                    let fresh_until = now + review::REVIEW_TTL;
                    let until = now + review::REVIEW_TTL_DURING_OUTAGE;
                    self.known.put(text, &vouched, now, (fresh_until, until));
                    return Ok(Some(vouched));
                }
                Ok(None) => {}
                // Another reviewing cluster may know the token.
                Err(VouchError::Other(error @ AuthenticateError::IssuerDown(_))) => {
                    unreachable = Some(error);
                }
                Err(error) => {
                    self.known.remove(text);
                    return Err(error);
                }
            }
        }
        match unreachable {
            Some(error) => match self.known.find_stale(text, now) {
                Some(vouched) => Ok(Some(vouched)),
                None => Err(error.into()),
            },
            None => {
                self.known.remove(text);
                Ok(None)
            }
        }
    }
}

impl Issuers {
    /// Issuers through which people sign in.
    #[must_use]
    pub fn sign_in_options(&self) -> SignInOptions {
        let issuers = self.tokens.iter().filter_map(JwtIssuer::sign_in);
        SignInOptions {
            issuers: issuers.cloned().collect(),
            token_exchange: (self.tokens.iter())
                .filter_map(JwtIssuer::exchange_issuer)
                .collect(),
        }
    }
}

#[async_trait]
impl TokenVerifier for Issuers {
    fn reserves(&self, name: &str) -> bool {
        let tokens = self.tokens.iter().map(JwtIssuer::mapping);
        let mut mappings = tokens.chain(self.reviewers.iter().map(Reviewer::mapping));
        mappings.any(|it| it.can_produce(name))
    }

    fn knows(&self, issuer: &str) -> bool {
        self.tokens.iter().any(|it| it.url() == issuer)
            || self.reviewers.iter().any(|it| it.url() == issuer)
    }

    fn exchange_rules(&self, issuer: &str) -> Option<String> {
        let issuer = self.tokens.iter().find(|it| it.url() == issuer)?;
        issuer.exchange().map(|terms| terms.rules.clone())
    }

    async fn verify(
        &self,
        token: &SecretString,
        from: IpAddr,
        now: OffsetDateTime,
    ) -> Result<Verified, AuthenticateError> {
        match self.resolve(token, from, now).await {
            Ok(Some(vouched)) => Ok(Verified::Caller(vouched.into())),
            Ok(None) => Ok(Verified::Unknown),
            Err(VouchError::NoRole(person)) => Ok(Verified::NoRole(person)),
            Err(VouchError::Other(error)) => Err(error),
        }
    }
}

fn mistakes(path: &Path, found: &[String]) -> Failure {
    let lines = found
        .iter()
        .map(|mistake| format!("\n  {}: {mistake}", path.display()));
    Failure::because(Code::BadConfig, lines.collect::<String>())
}

#[cfg(test)]
mod tests;
