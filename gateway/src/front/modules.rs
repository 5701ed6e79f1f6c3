//! The step for requests to modules.

use std::sync::Arc;

use fairlead_api::Failure;
use fairlead_exchange::Body;
use fairlead_seam::Principal;
use http::{Response, Uri, uri::PathAndQuery};

use crate::{
    front::{authenticate::BearerPrincipal, record::Inbound},
    http::modules,
    hub::Hub,
};

/// Forwards a request to the modules' routes.
///
/// # Errors
/// `FL-1308` if the module takes too long.
pub(crate) async fn call_module(
    hub: &Arc<Hub>,
    inbound: Box<Inbound>,
) -> Result<Response<Body>, Failure> {
    let principal = Principal::new(BearerPrincipal::new(hub, &inbound));
    let mut request = inbound.request;
    if let Some(uri) = without_last_slash(request.uri()) {
        *request.uri_mut() = uri;
    }
    request.extensions_mut().insert(principal);
    modules::call(hub.modules.clone(), request).await
}

/// Clients of Lieutenant's API append a slash to any path.
fn without_last_slash(uri: &Uri) -> Option<Uri> {
    let path = uri
        .path()
        .strip_suffix('/')
        .filter(|path| !path.is_empty())?;
    let path = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trailing_slash_is_removed() {
        let without =
            |uri: &str| without_last_slash(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(without("/clusters/").as_deref(), Some("/clusters"));
        assert_eq!(without("/clusters/?a=/").as_deref(), Some("/clusters?a=/"));
        assert_eq!(
            without("https://hub.test/docs/").as_deref(),
            Some("https://hub.test/docs")
        );
        assert_eq!(without("/"), None);
        assert_eq!(without("/clusters?a=/"), None);
    }
}
