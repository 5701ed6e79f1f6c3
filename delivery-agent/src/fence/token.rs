//! Tokens bound to locks (TokenRequest API).

use std::time::Duration;

use fairlead_api::Code;
use fairlead_apiserver::BearerToken;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{account::AccountName, failure, lock::LockPlace};
use crate::{
    engine::{FailureClass, RunFailure},
    kube::{KubeClient, KubeError},
};

/// Lifetime of a token.
const TOKEN_SECONDS: u64 = 3600;
/// Age of a token at its renewal.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(TOKEN_SECONDS / 2);
/// Interval of attempts to renew.
const RENEWAL_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Current token of a run, for programs. Clones share it.
#[derive(Clone)]
pub struct RunToken {
    receiver: watch::Receiver<SecretString>,
}

impl RunToken {
    pub(super) fn new(first: &IssuedToken) -> (watch::Sender<SecretString>, Self) {
        let (sender, receiver) = watch::channel(first.token.clone());
        (sender, Self { receiver })
    }

    /// The token now.
    #[must_use]
    pub fn current(&self) -> SecretString {
        self.receiver.borrow().clone()
    }

    /// Waits for a renewal, and returns the new token. Never ends after the run.
    pub async fn renewed(&mut self) -> SecretString {
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.receiver.borrow_and_update().clone()
    }
}

/// Token of the API server.
pub(super) struct IssuedToken {
    token: SecretString,
}

impl IssuedToken {
    pub(super) fn bearer(&self) -> Result<BearerToken, RunFailure> {
        BearerToken::new(&self.token).map_err(|error| {
            let class = FailureClass::Retry;
            RunFailure::new(class, Code::AccountUnusable, error.to_string())
        })
    }
}

/// Requests a token. The UID of the lock is named: a token of a cut-off process never binds to the lock of its successor.
pub(super) async fn request(
    client: &KubeClient,
    account: &AccountName,
    lock: Option<&LockPlace>,
) -> Result<IssuedToken, RunFailure> {
    issue(client, account, lock)
        .await
        .map_err(|error| refusal(&error, account))
}

async fn issue(
    client: &KubeClient,
    account: &AccountName,
    lock: Option<&LockPlace>,
) -> Result<IssuedToken, KubeError> {
    let mut spec = json!({ "expirationSeconds": TOKEN_SECONDS });
    if let (Some(lock), Value::Object(spec)) = (lock, &mut spec) {
        let bound =
            json!({ "kind": "Secret", "apiVersion": "v1", "name": lock.name, "uid": lock.uid });
        spec.insert("boundObjectRef".to_owned(), bound);
    }
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": spec,
    });
    let answer = client.create(&account.token_path(), &body).await?;
    let token = answer.pointer("/status/token").and_then(Value::as_str);
    let token =
        token.ok_or_else(|| KubeError::Unreachable("the answer has no token".to_owned()))?;
    Ok(IssuedToken {
        token: token.to_owned().into(),
    })
}

fn refusal(error: &KubeError, account: &AccountName) -> RunFailure {
    let unusable = |class, sentence| RunFailure::new(class, Code::AccountUnusable, sentence);
    match error.status() {
        Some(404) => {
            let sentence = format!("ServiceAccount {account} does not exist");
            unusable(FailureClass::Waiting, sentence)
        }
        Some(403) => {
            let sentence = format!("the agent may not request tokens of ServiceAccount {account}");
            unusable(FailureClass::Waiting, sentence)
        }
        _ => failure(error, &format!("no token of ServiceAccount {account}")),
    }
}

/// Renews the token of a run until its lock is gone.
pub(super) struct Renewal {
    pub(super) client: KubeClient,
    pub(super) run: KubeClient,
    pub(super) account: AccountName,
    pub(super) lock: LockPlace,
    pub(super) sender: watch::Sender<SecretString>,
}

impl Renewal {
    pub(super) async fn run(self) {
        let mut wait = RENEWAL_INTERVAL;
        loop {
            sleep(wait).await;
            wait = match issue(&self.client, &self.account, Some(&self.lock)).await {
                Ok(issued) => {
                    if let Ok(bearer) = issued.bearer() {
                        self.run.renew_token(bearer);
                    }
                    self.sender.send_replace(issued.token);
                    RENEWAL_INTERVAL
                }
                Err(KubeError::Status {
                    status: 404 | 409, ..
                }) => {
                    info!(lock = self.lock.name, "lock of the run is gone");
                    return;
                }
                Err(error) => {
                    warn!(%error, "token of the run not renewed");
                    RENEWAL_RETRY_INTERVAL
                }
            };
        }
    }
}
