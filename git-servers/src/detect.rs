//! Provider of an endpoint, found by requests without credentials.

use http::Method;
use serde::Deserialize;
use url::Url;

use crate::api_calls::{ApiCalls, ApiRequest, CallError};

/// Kind of a Git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// GitLab.
    GitLab,
    /// GitHub, also Enterprise Server.
    GitHub,
    /// Gitea or Forgejo.
    #[serde(alias = "forgejo")]
    Gitea,
}

/// Host of GitHub's website, whose API has another host.
const GITHUB_HOST: &str = "github.com";

impl ProviderKind {
    /// Address of the API of an endpoint.
    pub(crate) fn api(self, endpoint: &Url) -> Url {
        let mut url = endpoint.clone();
        let below = match self {
            ProviderKind::GitLab => ["api", "v4"],
            ProviderKind::Gitea => ["api", "v1"],
            ProviderKind::GitHub if endpoint.host_str() == Some(GITHUB_HOST) => {
                // The host of a URL with a host can always be set.
                url.set_host(Some("api.github.com")).ok();
                return url;
            }
            ProviderKind::GitHub => ["api", "v3"],
        };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(below);
        }
        url
    }
}

/// Requests the version of each provider's API; `None` if none answers as described.
///
/// # Errors
/// [`CallError::Unavailable`] and [`CallError::Throttled`]: the endpoint may answer later.
pub(crate) async fn detect(
    calls: impl Fn(ProviderKind) -> ApiCalls,
    endpoint: &Url,
) -> Result<Option<ProviderKind>, CallError> {
    if endpoint.host_str() == Some(GITHUB_HOST) {
        return Ok(Some(ProviderKind::GitHub));
    }
    for (kind, path, field) in [
        (ProviderKind::Gitea, "version", "version"),
        (ProviderKind::GitLab, "version", "version"),
        (
            ProviderKind::GitHub,
            "meta",
            "verifiable_password_authentication",
        ),
    ] {
        let answer = calls(kind)
            .call(ApiRequest::new(Method::GET, &[path]))
            .await;
        match answer {
            Ok(answer) if answer.body.get(field).is_some() => return Ok(Some(kind)),
            // GitLab shows its version to users only.
            Err(CallError::Unauthorized(_)) if kind == ProviderKind::GitLab => {
                return Ok(Some(kind));
            }
            Err(error @ (CallError::Unavailable(_) | CallError::Throttled { .. })) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_below_their_endpoints() {
        for (kind, endpoint, api) in [
            (
                ProviderKind::GitLab,
                "https://git.example/gitlab/",
                "https://git.example/gitlab/api/v4",
            ),
            (
                ProviderKind::Gitea,
                "https://git.example",
                "https://git.example/api/v1",
            ),
            (
                ProviderKind::GitHub,
                "https://ghe.example",
                "https://ghe.example/api/v3",
            ),
            (
                ProviderKind::GitHub,
                "https://github.com",
                "https://api.github.com/",
            ),
        ] {
            let endpoint: Url = endpoint.parse().unwrap();
            assert_eq!(kind.api(&endpoint).as_str(), api);
        }
    }
}
