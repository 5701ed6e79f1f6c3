//! A route from a client to the upstream, and everything that the load client needs for it.

use std::{ffi::OsString, path::PathBuf};

use hyper::Uri;
use serde::{Deserialize, Serialize};

use crate::load::{Sent, Target, Wanted};

/// TLS or plain, for the client's leg and the upstream's. The leg between hub and agent always has TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Legs {
    Tls,
    Plain,
}

#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) url: String,
    /// Trusted CA certificates, where `url` is https.
    pub(crate) ca_file: Option<PathBuf>,
    /// Name in SNI and certificate; the host of the URL if absent.
    pub(crate) server_name: Option<String>,
    pub(crate) token_file: PathBuf,
    /// Unix socket that accepts CONNECT.
    pub(crate) via: Option<PathBuf>,
}

impl Way {
    /// Arguments of the load client.
    pub(crate) fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--url".into(), self.url.clone().into()];
        args.extend(["--token-file".into(), self.token_file.clone().into()]);
        if let Some(file) = &self.ca_file {
            args.extend(["--ca-file".into(), file.clone().into()]);
        }
        if let Some(name) = &self.server_name {
            args.extend(["--server-name".into(), name.into()]);
        }
        if let Some(socket) = &self.via {
            args.extend(["--via".into(), socket.clone().into()]);
        }
        args
    }

    /// A target for requests to one path from this process.
    pub(crate) fn target(&self, path: &str) -> anyhow::Result<Target> {
        let token = std::fs::read_to_string(&self.token_file)?;
        Target::new(Wanted {
            url: &self.url.parse::<Uri>()?,
            path,
            body: Sent::Nothing,
            expect: 0..=usize::MAX,
            server_name: self.server_name.as_deref(),
            host: None,
            token: Some(token.trim()),
            tls: self
                .ca_file
                .as_deref()
                .map(crate::tls::client)
                .transpose()?,
            via: self.via.clone(),
            echo: false,
        })
    }
}
