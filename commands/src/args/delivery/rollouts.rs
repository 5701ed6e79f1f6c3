//! Arguments of `fairlead rollout`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{BundleId, TimeSpan};

use crate::{
    args::OutputArgs,
    complete::{bundles, rollout_targets},
};

const STATUS_EXAMPLES: &str = "\
Examples:
  fairlead rollout status shop
  fairlead rollout status shop -w --timeout 10m

Exit code 1: the rollout is halted, or has ended without success; 5: it is not done in time.";

#[derive(Subcommand)]
pub enum RolloutArgs {
    /// List the rollouts, latest first
    #[command(visible_alias = "ls")]
    List(RolloutList),
    /// Show the waves of a rollout
    #[command(after_help = STATUS_EXAMPLES)]
    Status(RolloutStatusArgs),
    /// Stop a rollout; clusters that have the new generation keep it
    Pause(RolloutVerb),
    /// Continue a paused or halted rollout
    Resume(RolloutVerb),
    /// End a rollout; clusters that have the new generation keep it
    Abort(RolloutVerb),
    /// Lift limits and soak time of the current wave
    Promote(RolloutVerb),
    /// Let failed clusters try again
    Retry(RolloutVerb),
}

#[derive(Args)]
pub struct RolloutList {
    /// Filter: rollouts of this bundle
    #[arg(long, value_name = "BUNDLE", value_parser = BundleId::from_name, add = ArgValueCompleter::new(bundles))]
    pub(crate) bundle: Option<BundleId>,
    /// Filter: rollouts in this state
    #[arg(long, value_name = "STATE", value_parser = ["Running", "Paused", "Halted", "Done", "Aborted", "Superseded"])]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub struct RolloutStatusArgs {
    /// Bundle, for its newest rollout, or id of a rollout
    #[arg(value_name = "BUNDLE|ROLLOUT", add = ArgValueCompleter::new(rollout_targets))]
    pub(crate) of: String,
    /// Keep watching until the rollout stops, and print each change
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Longest time of --watch
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
pub struct RolloutVerb {
    /// Bundle, for its newest rollout, or id of a rollout
    #[arg(value_name = "BUNDLE|ROLLOUT", add = ArgValueCompleter::new(rollout_targets))]
    pub(crate) of: String,
}
