//! Arguments of the commands of delivery.

mod bundles;
mod deploy;
mod deployments;
mod groups;
mod rollouts;
mod runs;
mod sources;

pub(crate) use self::bundles::{BundleArgs, BundleDelete, RollbackArgs};
pub(crate) use self::deploy::{DeployArgs, DiffArgs, FolderArgs};
pub(crate) use self::deployments::{DeploymentArgs, DeploymentList, OneDeployment, RunWait};
pub(crate) use self::groups::GroupArgs;
pub(crate) use self::rollouts::{RolloutArgs, RolloutList, RolloutStatusArgs};
pub(crate) use self::runs::{RunArgs, RunCreate, RunList, RunLogs};
pub(crate) use self::sources::{SourceAdd, SourceArgs};

pub(super) use self::bundles::ROLLBACK_EXAMPLES;
pub(super) use self::deploy::{DEPLOY_EXAMPLES, DIFF_EXAMPLES};
