//! Arguments of `fairlead deployment`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{BundleId, TimeSpan, delivery::DeploymentState};

use crate::{
    args::OutputArgs,
    complete::{bundles, clusters},
};

const LIST_EXAMPLES: &str = "\
Examples:
  fairlead deployment list --bundle shop
  fairlead deployment list --cluster demo -o wide
  fairlead deployment list --state Drifted";

#[derive(Subcommand)]
pub enum DeploymentArgs {
    /// List the deployments: bundles in clusters, with their states
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(DeploymentList),
    /// Show the deployment of a bundle in a cluster
    Get {
        #[command(flatten)]
        one: OneDeployment,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Apply the bundle in the cluster again
    Sync {
        #[command(flatten)]
        one: OneDeployment,
        #[command(flatten)]
        wait: RunWait,
    },
    /// Let a blocked deployment continue, for example delete many objects
    Confirm {
        #[command(flatten)]
        one: OneDeployment,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        wait: RunWait,
    },
    /// Stop drift correction and retries of a bundle in a cluster
    Suspend(OneDeployment),
    /// Continue drift correction and retries of a bundle in a cluster
    Resume(OneDeployment),
    /// Delete the objects of a bundle that no longer targets the cluster
    Remove {
        #[command(flatten)]
        one: OneDeployment,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub struct DeploymentList {
    /// Filter: deployments of this bundle
    #[arg(long, value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) bundle: Option<BundleId>,
    /// Filter: deployments in this cluster
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Filter: deployments in this state
    #[arg(long, value_name = "STATE", value_parser = deployment_state)]
    pub(crate) state: Option<DeploymentState>,
    /// Keep watching, and print each deployment again when it changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A bundle in a cluster.
#[derive(Args)]
pub struct OneDeployment {
    /// Cluster, by name or id
    #[arg(value_name = "CLUSTER", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: String,
    /// Id of the bundle
    #[arg(value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) bundle: BundleId,
}

/// Wait for the run that a command makes.
#[derive(Args)]
pub struct RunWait {
    /// Follow the log of the run to its end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest time of --wait
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn deployment_state(text: &str) -> Result<DeploymentState, String> {
    let mut states = DeploymentState::ALL.into_iter();
    let found = states.find(|it| it.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names = DeploymentState::ALL.map(DeploymentState::as_str);
        format!("expected {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_deployment_is_read_in_any_case() {
        assert_eq!(deployment_state("drifted"), Ok(DeploymentState::Drifted));
        let error = deployment_state("broken").unwrap_err();
        assert!(error.contains("Pending, Waiting"), "{error}");
    }
}
