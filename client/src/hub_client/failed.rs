//! Failures of requests that no hub has answered.

use std::{error::Error, io, iter::successors, time::Duration};

use fairlead_api::{Code, Failure, error_chain};
use fairlead_dialer::{
    DialError,
    dial::{compare_clocks, outer_error},
};

use super::{BoxError, HubClient};

/// Deadline of the request for the hub's time, after a certificate that is not valid now.
const CLOCK_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline of each step of a repeated connection.
const DIAGNOSIS_DEADLINE: Duration = Duration::from_secs(5);
/// Next step for a hub certificate that is not trusted.
const UNTRUSTED: &str = "Set FAIRLEAD_CA_FILE to the CA of the hub's front in PEM, or log in again with `--ca-file`; a hub with a CA of its own \
    has it in `front-ca.pem` of its data folder.";

impl HubClient {
    /// Cause of a failed request. reqwest drops the addresses that it tried and the response of a proxy, so the steps before
    /// TLS are repeated after a failed connection.
    pub(super) async fn cause_of(&self, error: reqwest::Error) -> BoxError {
        let error = error.without_url();
        if let Some(tls) = tls_error(&error) {
            let error = outer_error(&io::Error::other(tls.clone()));
            let any_time = &self.tls_at_any_time;
            let compared = compare_clocks(error, &self.proxy, &self.url, any_time, CLOCK_DEADLINE);
            return compared.await.into();
        }
        if error.is_connect()
            && !self.proxy.needs_proxy_tls(&self.url)
            && let Err(error) = self.proxy.connect(&self.url, DIAGNOSIS_DEADLINE).await
        {
            return error.into();
        }
        error.into()
    }

    /// Failure of a request without a response.
    pub(super) fn failed(&self, error: &(dyn Error + 'static)) -> Failure {
        match error.downcast_ref::<DialError>() {
            Some(error) if decides(error.code) => {
                let detail = format_args!("{}: {}", self.url, error.cause);
                let untrusted = (error.code == Code::DialTls).then(|| UNTRUSTED.into());
                Failure {
                    next: error.next.clone().or(untrusted),
                    ..Failure::because(error.code, detail)
                }
            }
            _ => self.unreachable(&error_chain(error)),
        }
    }
}

/// True for codes that are more specific than [`Code::HubUnreachable`].
const fn decides(code: Code) -> bool {
    matches!(
        code,
        Code::DialTls | Code::DialClock | Code::DialProxy | Code::DialProxyAuth
    )
}

/// TLS error among the causes of an error.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    successors(Some(error as &(dyn Error + 'static)), |error| cause(*error))
        .find_map(|error| error.downcast_ref::<rustls::Error>())
}

/// Next error below this one. `source` of an I/O error skips its inner error.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match inner {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
