//! The hub's clock, from its `Date` header. It is read over a TLS connection that checks everything
//! but the time, and that carries no secret.

use std::{sync::Arc, time::Duration};

use fairlead_api::HubUrl;
use http::header;
use rustls::ClientConfig;

use super::{
    error::{DialStage, step},
    outer::outer_tls,
    proxy::ProxyRules,
    upgrade::{self, NotSwitched},
};

/// Hub clock minus local clock in seconds, from the `Date` header of any response. `any_time`
/// trusts the same authorities and ignores validity periods. `None` if the hub does not answer.
pub(super) async fn offset(
    proxy: &ProxyRules,
    hub: &HubUrl,
    any_time: &Arc<ClientConfig>,
    deadline: Duration,
) -> Option<i64> {
    // Credentials of a proxy must not go to a certificate of any time.
    if proxy.needs_proxy_tls(hub) {
        return None;
    }
    let asked = async {
        let connected = proxy.connect(hub, deadline).await?;
        let tls = outer_tls(any_time, hub, connected.stream).await?;
        Ok(match upgrade::ask(tls, hub).await {
            Ok((switched, _)) => Some(switched.headers),
            Err(NotSwitched::Refused { headers, .. }) => Some(headers),
            Err(NotSwitched::Broken(_)) => None,
        })
    };
    let headers = step(DialStage::Tls, deadline, asked).await.ok().flatten()?;
    upgrade::offset(headers.get(header::DATE)?.to_str().ok()?)
}
