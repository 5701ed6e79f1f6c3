//! Client of one API server: address and credential of a pod or a kubeconfig, pooled connections, and reads of
//! objects page by page.

mod config;
mod credentials;
mod objects;
mod upstream;

pub use config::{ApiServerConfig, SERVICE_ACCOUNT_DIR};
pub use credentials::{ApiCredentials, error::CredentialsError, location::ApiLocation};
/// Body of an answer.
pub use fairlead_exchange::Body as AnswerBody;
pub use objects::{KubeObjects, ObjectsError};
pub use upstream::{
    BadToken, BearerToken, RelayedHeaders, RelayedLines, Upstream, UpstreamError,
    connect::ConnectError,
};
