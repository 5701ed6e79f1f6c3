//! A JSON client that creates objects, either in the hub as its admin or in a real API server.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use serde::de::DeserializeOwned;
use tokio::time;

use crate::dial::Dial;

const CREATE_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Api {
    dial: Dial,
    host: HeaderValue,
    bearer: HeaderValue,
}

impl Api {
    pub(crate) fn new(url: &str, ca_file: &Path, token_file: &Path) -> anyhow::Result<Self> {
        let url: Uri = url.parse()?;
        let authority = url.authority().context("the URL has no host")?;
        let tls = crate::tls::client(ca_file)?;
        let token = std::fs::read_to_string(token_file)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
        bearer.set_sensitive(true);
        Ok(Self {
            dial: Dial::new(authority, authority.host(), Some(tls), None)?,
            host: HeaderValue::from_str(authority.as_str())?,
            bearer,
        })
    }

    /// Creates objects one after the other over one new connection and returns the answers.
    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        path: &str,
        bodies: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<Vec<T>> {
        let opened = time::timeout(CREATE_DEADLINE, async {
            let (sender, driver) = http1::handshake(self.dial.open().await?).await?;
            // The task ends with its connection.
            drop(tokio::spawn(driver));
            anyhow::Ok(sender)
        });
        let mut sender = opened.await.context("no connection in time")??;
        let mut answers = Vec::new();
        for body in bodies {
            let created = time::timeout(CREATE_DEADLINE, async {
                sender.ready().await?;
                let mut request = Request::new(Full::new(Bytes::from(body)));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = path.parse()?;
                let headers = request.headers_mut();
                headers.insert(HOST, self.host.clone());
                headers.insert(AUTHORIZATION, self.bearer.clone());
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let answer = sender.send_request(request).await?;
                let status = answer.status();
                let body = answer.into_body().collect().await?.to_bytes();
                ensure!(
                    status == StatusCode::CREATED || status == StatusCode::OK,
                    "POST {path}: {status}: {}",
                    String::from_utf8_lossy(&body)
                );
                Ok(serde_json::from_slice(&body)?)
            });
            answers.push(created.await.context("nothing created in time")??);
        }
        Ok(answers)
    }
}
