//! Tokens from Secrets of the Kubernetes cluster in which the hub runs, read anew for each use. Its
//! service account decides which ones the hub may read.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    TenantId,
    resources::{Credentials, ValueSource},
};
use http::Method;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::{
    api_calls::{ApiCalls, ApiRequest, CallError, RateLimit, TokenHeader},
    credentials::{TokenError, is_file_name},
};

/// Folder of the service account in each pod.
const POD_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// API server as each pod reaches it.
const API_SERVER: &str = "https://kubernetes.default.svc";
/// Key of the token in a Secret, as in Lieutenant's Secrets.
const TOKEN_KEY: &str = "token";
/// Label of a Secret with the id of the tenant that may use it.
const TENANT_LABEL: &str = "fairlead/tenant";
/// Label of a Secret that the hub has made.
const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "fairlead";

/// Secrets of the hub's own cluster.
#[derive(Debug)]
pub(crate) struct KubernetesSecrets {
    http: Client,
    base: Url,
    account: PathBuf,
}

impl KubernetesSecrets {
    /// Secrets as the service account of this pod reads them.
    ///
    /// # Errors
    /// The hub does not run in a pod, or its CA cannot be used.
    pub(crate) fn of_pod(
        client: impl FnOnce(Option<&Path>) -> Result<Client, String>,
    ) -> Result<Self, String> {
        let account = PathBuf::from(POD_ACCOUNT);
        let ca = account.join("ca.crt");
        let http = client(Some(&ca))?;
        let base = API_SERVER.parse();
        Ok(KubernetesSecrets {
            http,
            base: base.map_err(|error: url::ParseError| error.to_string())?,
            account,
        })
    }

    /// Token of the Secret of a reference. Without a namespace it is the hub's own.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) async fn read(&self, reference: &Credentials) -> Result<SecretString, TokenError> {
        let own = || self.of_account("namespace");
        let namespace = match &reference.namespace {
            Some(namespace) => namespace.clone(),
            None => own().map_err(|error| unreadable(&reference.name, error.to_string()))?,
        };
        let (name, secret) = self.secret(&namespace, &reference.name).await?;
        text_of(&name, &secret, TOKEN_KEY)
    }

    /// A credential of a tenant: a Secret in the hub's namespace with the label of the tenant.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) async fn read_of_tenant(
        &self,
        tenant: &TenantId,
        reference: &ValueSource,
    ) -> Result<SecretString, TokenError> {
        let namespace = self.of_account("namespace");
        let namespace =
            namespace.map_err(|error| unreadable(&reference.name, error.to_string()))?;
        let (name, secret) = self.secret(&namespace, &reference.name).await?;
        let label = secret
            .pointer("/metadata/labels")
            .and_then(|it| it.get(TENANT_LABEL));
        if label.and_then(Value::as_str) != Some(tenant.as_str()) {
            return Err(TokenError::OfOthers(name, tenant.clone()));
        }
        let key = reference.key.as_deref().unwrap_or(TOKEN_KEY);
        text_of(&name, &secret, key)
    }

    /// Writes a credential of a tenant into the hub's namespace. A Secret that the hub has not made
    /// stays.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) async fn write_of_tenant(
        &self,
        tenant: &TenantId,
        secret: &str,
        text: &SecretString,
    ) -> Result<(), TokenError> {
        let failed = |cause: String| unreadable(secret, cause);
        let namespace = self.of_account("namespace");
        let namespace = namespace.map_err(|error| failed(error.to_string()))?;
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret,
                "labels": { TENANT_LABEL: tenant, MANAGER_LABEL: MANAGER },
            },
            "data": { TOKEN_KEY: STANDARD.encode(text.expose_secret()) },
        });
        let all = ["api", "v1", "namespaces", namespace.as_str(), "secrets"];
        let calls = self.calls()?;
        let made = calls.call(ApiRequest::new(Method::POST, &all).body(body.clone()));
        match made.await {
            Err(CallError::Conflict(_)) => {}
            made => return made.map(drop).map_err(|error| failed(error.to_string())),
        }
        let (_, found) = self.secret(&namespace, secret).await?;
        let labels = found.pointer("/metadata/labels");
        let manager = labels.and_then(|it| it.get(MANAGER_LABEL));
        if manager.and_then(Value::as_str) != Some(MANAGER) {
            return Err(failed("it exists, and the hub has not made it".to_owned()));
        }
        if let (Some(fields), Some(version)) = (
            body.get_mut("metadata").and_then(Value::as_object_mut),
            found.pointer("/metadata/resourceVersion"),
        ) {
            fields.insert("resourceVersion".to_owned(), version.clone());
        }
        let one = [&all[..], &[secret]].concat();
        let replaced = calls.call(ApiRequest::new(Method::PUT, &one).body(body));
        let replaced = replaced.await.map(drop);
        replaced.map_err(|error| failed(error.to_string()))
    }

    fn calls(&self) -> Result<ApiCalls, TokenError> {
        let account = self.of_account("token");
        let account = account.map_err(|error| unreadable("account", error.to_string()))?;
        Ok(ApiCalls {
            http: self.http.clone(),
            base: self.base.clone(),
            token: Some((TokenHeader::Authorization("Bearer"), account.into())),
            accept: "application/json",
            limit: Arc::new(RateLimit::default()),
        })
    }

    /// Full name and content of a Secret.
    async fn secret(&self, namespace: &str, secret: &str) -> Result<(String, Value), TokenError> {
        let name = format!("{namespace}/{secret}");
        if !is_file_name(namespace) || !is_file_name(secret) {
            return Err(TokenError::BadName(name));
        }
        let calls = self.calls()?;
        let path = ["api", "v1", "namespaces", namespace, "secrets", secret];
        let secret = calls.call(ApiRequest::get(&path)).await;
        match secret {
            Ok(secret) => Ok((name, secret.body)),
            Err(error @ CallError::Missing) => Err(TokenError::Missing {
                name: of_secret(&name),
                cause: error.to_string(),
            }),
            Err(error) => Err(unreadable(&name, error.to_string())),
        }
    }

    /// File of the service account; its token is replaced from time to time.
    fn of_account(&self, file: &str) -> io::Result<String> {
        let text = fs::read_to_string(self.account.join(file))?;
        Ok(text.trim().to_owned())
    }
}

fn text_of(name: &str, secret: &Value, key: &str) -> Result<SecretString, TokenError> {
    let data = secret.get("data").and_then(|it| it.get(key));
    let text = data.and_then(|it| STANDARD.decode(it.as_str()?).ok());
    let text = text.and_then(|it| String::from_utf8(it).ok());
    let text = text.unwrap_or_default();
    match text.trim() {
        "" => Err(unreadable(name, format!("it has no text in {key}"))),
        text => Ok(text.to_owned().into()),
    }
}

fn unreadable(name: &str, cause: String) -> TokenError {
    TokenError::Unreadable {
        name: of_secret(name),
        cause,
    }
}

fn of_secret(name: &str) -> String {
    format!("of the Secret {name}")
}

#[cfg(test)]
mod tests {
    use axum::{
        Json, Router,
        http::{HeaderMap, StatusCode},
        routing::{get, post},
    };
    use tokio::net::TcpListener;

    use super::*;

    async fn secret(headers: HeaderMap) -> Json<Value> {
        assert_eq!(headers["authorization"], "Bearer of-the-pod");
        Json(json!({ "data": { "token": STANDARD.encode("glpat-1\n") } }))
    }

    /// Both names are taken, `new` is not.
    async fn make(Json(body): Json<Value>) -> StatusCode {
        assert_eq!(body["metadata"]["labels"]["fairlead/tenant"], "t-acme");
        match body["metadata"]["name"].as_str() {
            Some("new") => StatusCode::CREATED,
            _ => StatusCode::CONFLICT,
        }
    }

    async fn of_acme() -> Json<Value> {
        let labels =
            json!({ "fairlead/tenant": "t-acme", "app.kubernetes.io/managed-by": "fairlead" });
        let metadata = json!({ "labels": labels, "resourceVersion": "41" });
        Json(json!({ "metadata": metadata, "data": { "token": STANDARD.encode("of-acme") } }))
    }

    async fn of_people() -> Json<Value> {
        Json(json!({ "metadata": { "labels": {} }, "data": { "token": STANDARD.encode("x") } }))
    }

    async fn replace(Json(body): Json<Value>) -> StatusCode {
        assert_eq!(body["metadata"]["resourceVersion"], "41");
        assert_eq!(body["data"]["token"], STANDARD.encode("new-token"));
        StatusCode::OK
    }

    async fn secrets(account: &Path) -> KubernetesSecrets {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let empty = || async { Json(json!({ "data": {} })) };
        let away = || async { StatusCode::SERVICE_UNAVAILABLE };
        let router = Router::new()
            .route("/api/v1/namespaces/syn/secrets/git", get(secret))
            .route("/api/v1/namespaces/hub/secrets/git", get(secret))
            .route("/api/v1/namespaces/syn/secrets/empty", get(empty))
            .route("/api/v1/namespaces/syn/secrets/away", get(away))
            .route("/api/v1/namespaces/hub/secrets", post(make))
            .route(
                "/api/v1/namespaces/hub/secrets/ours",
                get(of_acme).put(replace),
            )
            .route("/api/v1/namespaces/hub/secrets/theirs", get(of_people));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fs::write(account.join("token"), "of-the-pod\n").unwrap();
        fs::write(account.join("namespace"), "hub").unwrap();
        KubernetesSecrets {
            http: crate::config::client(None).unwrap(),
            base: format!("http://{address}").parse().unwrap(),
            account: account.to_owned(),
        }
    }

    fn reference(namespace: Option<&str>, name: &str) -> Credentials {
        Credentials {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn tokens_of_secrets_are_read_by_reference() {
        let home = tempfile::tempdir().unwrap();
        let secrets = secrets(home.path()).await;
        for namespace in [Some("syn"), None] {
            let token = secrets.read(&reference(namespace, "git")).await.unwrap();
            assert_eq!(token.expose_secret(), "glpat-1");
        }
        for (namespace, name, expected) in [
            ("syn", "missing", "of the Secret syn/missing: not found"),
            ("syn", "empty", "no text in token"),
            ("..", "git", "no name of a file"),
        ] {
            let refused = secrets.read(&reference(Some(namespace), name)).await;
            let cause = refused.unwrap_err().to_string();
            assert!(cause.contains(expected), "{cause}");
        }
    }

    #[tokio::test]
    async fn only_an_answer_that_there_is_no_secret_makes_it_a_missing_one() {
        let home = tempfile::tempdir().unwrap();
        let secrets = secrets(home.path()).await;
        let read = async |name| secrets.read(&reference(Some("syn"), name)).await;
        let missing = read("missing").await;
        assert!(matches!(missing, Err(TokenError::Missing { .. })));
        for name in ["away", "empty"] {
            let failed = read(name).await;
            assert!(
                matches!(failed, Err(TokenError::Unreadable { .. })),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn credentials_of_a_tenant_need_its_label() {
        let home = tempfile::tempdir().unwrap();
        let secrets = secrets(home.path()).await;
        let source = |name: &str| ValueSource {
            name: name.to_owned(),
            key: None,
        };
        let acme: TenantId = "t-acme".parse().unwrap();
        let read = secrets.read_of_tenant(&acme, &source("ours")).await;
        assert_eq!(read.unwrap().expose_secret(), "of-acme");
        let other: TenantId = "t-other".parse().unwrap();
        for (tenant, name) in [(&other, "ours"), (&acme, "theirs")] {
            let refused = secrets.read_of_tenant(tenant, &source(name)).await;
            assert!(matches!(refused, Err(TokenError::OfOthers(..))), "{name}");
        }
    }

    #[tokio::test]
    async fn secrets_of_people_are_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let secrets = secrets(home.path()).await;
        let acme: TenantId = "t-acme".parse().unwrap();
        let text = "new-token".to_owned().into();
        for name in ["new", "ours"] {
            secrets.write_of_tenant(&acme, name, &text).await.unwrap();
        }
        let refused = secrets.write_of_tenant(&acme, "theirs", &text).await;
        let cause = refused.unwrap_err().to_string();
        assert!(cause.contains("the hub has not made it"), "{cause}");
        assert!(!cause.contains("new-token"), "{cause}");
    }
}
