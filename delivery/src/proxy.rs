//! Proxy of the programs that fetch content: git and helm.

use secrecy::{ExposeSecret, SecretString};
use tokio::process::Command;

/// Proxy, as in the variables of the hub's own environment.
#[derive(Debug, Clone, Default)]
pub struct ProgramProxy {
    /// `HTTPS_PROXY`; it may contain a password.
    pub https_proxy: Option<SecretString>,
    /// `NO_PROXY`.
    pub no_proxy: Option<String>,
}

impl ProgramProxy {
    /// Sets the variables of a program. They are no arguments, because other users of the machine see those.
    pub(crate) fn set(&self, command: &mut Command) {
        if let Some(proxy) = &self.https_proxy {
            command.env("HTTPS_PROXY", proxy.expose_secret());
        }
        if let Some(exceptions) = &self.no_proxy {
            command.env("NO_PROXY", exceptions);
        }
    }
}
