//! Runs a credential plugin (`client.authentication.k8s.io`, v1 and v1beta1) as client-go does, but without a
//! terminal and with a deadline. Its output is a credential: parsed, never logged.

use std::{process::Stdio, time::Duration};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{process::Command, time::timeout};

use super::{
    endpoint::ClientCertificate, error::CredentialsError, files::bearer, kubeconfig_file::Plugin,
};

const PLUGIN_DEADLINE: Duration = Duration::from_secs(30);

pub(super) struct Credential {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) client: Option<ClientCertificate>,
    pub(super) expires: Option<OffsetDateTime>,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    expiration_timestamp: Option<String>,
    token: Option<SecretString>,
    client_certificate_data: Option<String>,
    client_key_data: Option<SecretString>,
}

/// Runs the plugin. `cluster_info`: description of the cluster for plugins that request it.
pub(super) async fn run(
    plugin: &Plugin,
    cluster_info: &Value,
) -> Result<Credential, CredentialsError> {
    let name = plugin.command.display().to_string();
    let failed = |cause: String| CredentialsError::Plugin {
        command: name.clone(),
        cause,
    };
    let output = match timeout(PLUGIN_DEADLINE, command(plugin, cluster_info).output()).await {
        Err(_) => {
            return Err(failed(format!(
                "it did not end within {} s",
                PLUGIN_DEADLINE.as_secs()
            )));
        }
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Ok(Ok(output)) if !output.status.success() => {
            return Err(failed(output.status.to_string()));
        }
        Ok(Ok(output)) => output,
    };
    // An error of the parser may quote its input.
    let printed: ExecCredential = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed("its output is not an ExecCredential in JSON".to_owned()))?;
    credential(printed).map_err(|cause| failed(cause.to_owned()))
}

fn credential(printed: ExecCredential) -> Result<Credential, &'static str> {
    let status = printed.status.ok_or("its ExecCredential has no status")?;
    let authorization = match &status.token {
        None => None,
        Some(token) => Some(bearer(token.expose_secret()).ok_or("its token cannot be used")?),
    };
    let client = match (status.client_certificate_data, status.client_key_data) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        _ => return Err("it gave a certificate without a key, or a key without a certificate"),
    };
    if authorization.is_none() && client.is_none() {
        return Err("it gave neither a token nor a certificate");
    }
    let expires = match status.expiration_timestamp {
        None => None,
        Some(at) => Some(
            OffsetDateTime::parse(&at, &Rfc3339)
                .map_err(|_| "its expirationTimestamp is not a time")?,
        ),
    };
    Ok(Credential {
        authorization,
        client,
        expires,
    })
}

fn command(plugin: &Plugin, cluster_info: &Value) -> Command {
    let mut command = Command::new(&plugin.command);
    command.args(&plugin.args);
    for variable in &plugin.env {
        command.env(&variable.name, variable.value.expose_secret());
    }
    let spec = if plugin.provide_cluster_info {
        json!({ "interactive": false, "cluster": cluster_info })
    } else {
        json!({ "interactive": false })
    };
    let info = json!({ "apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    // stderr is for the person who runs the agent.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    command
}
