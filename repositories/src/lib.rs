//! Git repositories of tenants and clusters: the desired repository ([`DesiredRepo`]), and the
//! seam of the Git servers that provide it ([`GitServer`]). No I/O.

mod desired;
mod merge_requests;
mod secrets;
mod server;

pub use desired::{
    DesiredFile, DesiredRepo, DesiredVariable, KnownRepo, RepoOwner, ReportedAccessToken,
    RetiredRepo, Retirement, VariableSource, access_token_name, deploy_key_name,
};
pub use merge_requests::{CiResult, MergeCheck, MergeRequestFilter, OpenMergeRequest};
pub use secrets::RepoSecrets;
pub use server::{GitServer, GitServerError, GitServers, ReportedRepo};
