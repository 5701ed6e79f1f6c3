//! A Kubernetes cluster that reviews tokens (`authentication.k8s.io/v1`, TokenReview).
//! Installations of Lieutenant work this way: its callers are service accounts of its own cluster.

use std::{path::PathBuf, sync::Arc};

use fairlead_api::Failure;
use fairlead_seam::{AuthenticateError, SubjectProof};
use reqwest::{Client, header};
use serde::Deserialize;
use serde_json::{Value, json};
use time::Duration;

use super::{
    config::{Mapping, Review},
    fetch::{self, FetchError, fetch},
    vouched::{VouchError, Vouched},
};

/// Lifetime of a cached review: a deleted token is refused after this time, and its running requests end within 10 s.
pub(super) const REVIEW_TTL: Duration = Duration::seconds(4);
/// Lifetime of a cached review while no reviewing cluster can be reached.
pub(super) const REVIEW_TTL_DURING_OUTAGE: Duration = Duration::seconds(60);

pub(super) struct Reviewer {
    name: String,
    url: Arc<str>,
    audience: Vec<String>,
    token_file: PathBuf,
    mapping: Mapping,
    client: Client,
}

#[derive(Deserialize)]
struct TokenReviewResponse {
    #[serde(default)]
    status: TokenReviewStatus,
}

#[derive(Default, Deserialize)]
struct TokenReviewStatus {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: Value,
    #[serde(default)]
    audiences: Vec<String>,
}

impl Reviewer {
    /// Builds a reviewer from its table.
    ///
    /// # Errors
    /// `FL-4101` if its CA file cannot be used.
    pub(super) fn new(config: Review) -> Result<Self, Failure> {
        let table = format!("review.{}", config.name);
        Ok(Reviewer {
            client: fetch::client(&table, config.ca_file.as_deref())?,
            name: config.name,
            url: config.url.into(),
            audience: config.audience,
            token_file: config.token_file,
            mapping: config.mapping,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Lets the cluster review a token that nobody has.
    pub(super) async fn check(&self) -> Result<(), String> {
        let reviewed = self.post_review("fairlead-doctor").await;
        reviewed.map(drop).map_err(|cause| cause.to_string())
    }

    /// Reviews a token; `None` if the cluster does not know it.
    ///
    /// # Errors
    /// [`AuthenticateError::IssuerDown`] if the cluster is unreachable, [`VouchError::NoRole`] if the caller has no role
    /// here.
    pub(super) async fn review(&self, token: &str) -> Result<Option<Vouched>, VouchError> {
        let status = self.post_review(token).await.map_err(|cause| {
            AuthenticateError::IssuerDown(format!("review {}: {cause}", self.name))
        })?;
        // An API server without audience support returns none: then the token was not issued for
        // this hub.
        let ours = |it: &String| self.audience.contains(it);
        if !status.authenticated || !(self.audience.is_empty() || status.audiences.iter().any(ours))
        {
            return Ok(None);
        }
        let vouched = (self.mapping).apply(&self.url, &status.user, None, SubjectProof::Reviewed);
        Ok(Some(vouched?))
    }

    async fn post_review(&self, token: &str) -> Result<TokenReviewStatus, FetchError> {
        let own = tokio::fs::read_to_string(&self.token_file).await;
        let own = own
            .map_err(|error| FetchError::Http(format!("{}: {error}", self.token_file.display())))?;
        let mut bearer = header::HeaderValue::from_str(&format!("Bearer {}", own.trim()))
            .map_err(|_| FetchError::Http("token_file contains no token".to_owned()))?;
        bearer.set_sensitive(true);
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token, "audiences": self.audience },
        });
        let request = self
            .client
            .post(format!(
                "{}/apis/authentication.k8s.io/v1/tokenreviews",
                self.url
            ))
            .header(header::AUTHORIZATION, bearer)
            .header(header::CONTENT_TYPE, "application/json")
            .body(review.to_string());
        let body = fetch(request).await?;
        let answer: TokenReviewResponse = serde_json::from_slice(&body)
            .map_err(|error| FetchError::Http(format!("invalid response: {error}")))?;
        Ok(answer.status)
    }
}
