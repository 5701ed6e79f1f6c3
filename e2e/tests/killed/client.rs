//! A client of the hub on a kept connection.

use anyhow::ensure;
use fairlead_e2e::{RawClient, RawExchange};
use serde_json::Value;

pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Bearer token; `None` where the path holds the secret.
    pub(crate) token: Option<String>,
    /// JSON body; null for none.
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>, token: &str) -> Self {
        Request {
            method: "GET",
            path: path.into(),
            token: Some(token.to_owned()),
            body: Value::Null,
        }
    }

    pub(crate) fn post(path: &str, token: &str, body: Value) -> Self {
        Request {
            method: "POST",
            body,
            ..Request::get(path, token)
        }
    }

    pub(crate) fn patch(path: &str, token: &str, body: Value) -> Self {
        Request {
            method: "PATCH",
            ..Request::post(path, token, body)
        }
    }

    fn text(&self) -> String {
        let body = match &self.body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let token = self.token.iter();
        let token: String = token
            .map(|it| format!("authorization: Bearer {it}\r\n"))
            .collect();
        let (method, path, length) = (self.method, &self.path, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{token}\r\n{body}"
        )
    }
}

pub(crate) struct LoadClient {
    front: RawClient,
    connection: Option<RawExchange>,
}

impl LoadClient {
    pub(crate) fn new(front: RawClient) -> Self {
        LoadClient {
            front,
            connection: None,
        }
    }

    /// # Errors
    /// There is no answer, or an incomplete one.
    pub(crate) async fn ask(&mut self, request: &Request) -> anyhow::Result<(u16, Value)> {
        let text = request.text();
        let (connection, body) = match self.connection.take() {
            Some(mut connection) => {
                let body = connection.again(text.as_bytes()).await?;
                (connection, body)
            }
            None => {
                let mut connection = self.front.open(text.as_bytes()).await?;
                let body = connection.body().await?;
                (connection, body)
            }
        };
        let status = connection.status;
        let body = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&body)?,
        };
        self.connection = Some(connection);
        Ok((status, body))
    }

    /// # Errors
    /// As [`LoadClient::ask`], or the request is rejected.
    pub(crate) async fn good(&mut self, request: &Request) -> anyhow::Result<Value> {
        let (status, body) = self.ask(request).await?;
        let (method, path) = (request.method, &request.path);
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status} {body}"
        );
        Ok(body)
    }
}
