//! `POST /hooks/v1/sources/{id}`: a Git server reports a push. It polls at once, and carries no content.
//!
//! An unknown source, one without a secret and a wrong signature look the same.

use std::sync::Arc;

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use axum::extract::State;
use fairlead_api::{Code, SourceId, hex};
use fairlead_routes::{
    ApiRoutes, RouteSpec,
    reply::{Answer, Path, StrangerBody},
};
use http::{HeaderMap, StatusCode};
use tracing::info;

use super::Sources;
use crate::rights::TAG;

/// Limit of a webhook's body in bytes: a push of many commits is large.
const MAX_HOOK_BYTES: usize = 1024 * 1024;

/// Route for Git servers.
pub(crate) fn hook_routes() -> ApiRoutes<Arc<Sources>> {
    ApiRoutes::new().route(
        RouteSpec::post(
            TAG,
            "/hooks/v1/sources/{sourceId}",
            "callSourceHook",
            "Report a push to the repository of a source: signature of GitHub or Gitea, token of GitLab",
        )
        .open()
        .gives_nothing(202)
        .fails(401, "No source has this id and this secret"),
        call,
    )
}

async fn call(
    State(sources): State<Arc<Sources>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    StrangerBody(body): StrangerBody<MAX_HOOK_BYTES>,
) -> Answer<StatusCode> {
    let secret = sources.secret_of(&id);
    let is_genuine = is_genuine(secret.as_deref().unwrap_or_default(), (&headers, &body));
    match id.parse::<SourceId>() {
        Ok(id) if secret.is_some() && is_genuine => {
            info!(source = %id, "webhook of a source called");
            sources.note_call(&id);
            Ok(StatusCode::ACCEPTED)
        }
        _ => Err(Code::HookRefused.into()),
    }
}

impl Sources {
    /// Secret of the webhook: the file `SOURCE.webhook` of the tenant's credentials.
    fn secret_of(&self, id: &str) -> Option<Vec<u8>> {
        let id: SourceId = id.parse().ok()?;
        let view = self.parts.store.view();
        let source = &view.source(&id)?.value;
        let name = format!("{id}.webhook");
        let secret = self.credentials.read(&source.tenant, &name).ok()?;
        let secret = secret.trim_ascii().to_vec();
        Some(secret).filter(|it| !it.is_empty())
    }
}

/// True for a signature or a token with this secret. An empty secret takes the same time.
fn is_genuine(secret: &[u8], (headers, body): (&HeaderMap, &[u8])) -> bool {
    let value = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let github = value("x-hub-signature-256").and_then(|it| it.strip_prefix("sha256="));
    if let Some(signature) = github.or_else(|| value("x-gitea-signature")) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let signature = hex::decode::<32>(signature).unwrap_or_default();
        return hmac::verify(&key, body, &signature).is_ok();
    }
    let token = value("x-gitlab-token").unwrap_or_default();
    // Digests have one length, so that the comparison shows none.
    let of = |bytes: &[u8]| aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let (sent, expected) = (of(token.as_bytes()), of(secret));
    verify_slices_are_equal(sent.as_ref(), expected.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn check(name: &'static str, value: &str) -> bool {
        let value = value.parse().unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
        is_genuine(b"It's a Secret to Everybody", (&headers, b"Hello, World!"))
    }

    // Example of GitHub's documentation of webhooks.
    const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn signatures_and_tokens_are_checked() {
        assert!(check("x-hub-signature-256", &format!("sha256={SIGNATURE}")));
        assert!(check("x-gitea-signature", SIGNATURE));
        assert!(check("x-gitlab-token", "It's a Secret to Everybody"));
        for (name, value) in [
            ("x-hub-signature-256", SIGNATURE),
            ("x-hub-signature-256", "sha256="),
            ("x-gitea-signature", &SIGNATURE.replace('7', "8")),
            ("x-gitea-signature", ""),
            ("x-gitlab-token", "It's a Secret"),
            ("x-gitlab-token", ""),
            ("x-other", ""),
        ] {
            assert!(!check(name, value), "{name}: {value}");
        }
    }
}
