//! Commands of `fairlead` that talk to a hub. Each command is a module; `args` defines its flags.

mod access;
mod adoption;
mod apply;
mod args;
mod audit;
mod bulk;
mod ca;
mod changes;
mod cluster;
pub mod complete;
pub mod confirm;
mod credential;
mod delivery;
mod describe;
mod edit;
mod facts;
mod fields;
mod find;
mod git_credential;
mod git_server;
mod import;
mod inventory;
mod kubeconfig;
mod login;
mod merge_requests;
pub mod output;
mod recording;
mod revocation;
mod runtime;
mod services;
mod tcp;
mod tenant;
mod tenant_filter;
mod token;
mod top;
mod upgrade;
mod vault;
mod versions;
mod watch;
mod whoami;

use fairlead_api::Failure;
use fairlead_client::Environment;

pub use self::{
    args::{AgentUpgradeArgs, HubCommand, HubPlace, OutputArgs},
    runtime::block_on,
    token::local::CreateLocally,
    upgrade::start as start_agent_upgrade,
    versions::show as show_fleet_versions,
};

/// Runs a command. `create_locally` creates a token in the data of a hub on this machine.
///
/// # Errors
///
/// The failure to show to the user.
pub fn run(
    command: HubCommand,
    environment: &Environment,
    create_locally: CreateLocally,
) -> Result<(), Failure> {
    match command {
        HubCommand::Tenant(command) => tenant::run(command, environment),
        HubCommand::Cluster(command) => cluster::run(command, environment),
        HubCommand::Adoption(command) => adoption::run(command, environment),
        HubCommand::Upgrade(command) => upgrade::run(command, environment),
        HubCommand::Facts(args) => facts::run(args, environment),
        HubCommand::Find(args) => find::run(args, environment),
        HubCommand::Inventory(command) => inventory::run(command, environment),
        HubCommand::Changes(args) => changes::run(args, environment),
        HubCommand::Audit(args) => audit::run(args, environment),
        HubCommand::Recording(command) => recording::run(&command),
        HubCommand::Token(command) => token::run(command, environment, create_locally),
        HubCommand::ConfirmRestore(asked) => ca::confirm_restore(&asked, environment),
        HubCommand::GitServer(command) => git_server::run(command, environment),
        HubCommand::Maintenance(command) => merge_requests::run(command, environment),
        HubCommand::Vault(command) => vault::run(command, environment),
        HubCommand::Ca(command) => ca::run(command, environment),
        HubCommand::Access(command) => access::run(command, environment),
        HubCommand::Top(args) => top::run(&args, environment),
        HubCommand::Sessions(command) => revocation::sessions(command, environment),
        HubCommand::Lock(args) => revocation::lock(args, environment),
        HubCommand::Unlock(args) => revocation::unlock(&args, environment),
        HubCommand::Locks(command) => revocation::locks(command, environment),
        HubCommand::Deploy(args) => delivery::deploy(*args, environment),
        HubCommand::Diff(args) => delivery::diff(*args, environment),
        HubCommand::Bundle(command) => delivery::bundle(command, environment),
        HubCommand::Rollback(args) => delivery::rollback(args, environment),
        HubCommand::Rollout(command) => delivery::rollout(command, environment),
        HubCommand::Deployment(command) => delivery::deployment(command, environment),
        HubCommand::Run(command) => delivery::run(command, environment),
        HubCommand::Source(command) => delivery::source(command, environment),
        HubCommand::Group(command) => delivery::group(command, environment),
        HubCommand::Import(command) => import::run(command, environment),
        HubCommand::Kubeconfig(args) => kubeconfig::run(&args, environment),
        HubCommand::Credential(args) => credential::run(&args, environment),
        HubCommand::Login(args) => login::run(&args, environment),
        HubCommand::Logout(args) => login::logout(&args, environment),
        HubCommand::Hub(command) => login::hubs(&command, environment),
        HubCommand::Forward(args) => tcp::forward(&args, environment),
        HubCommand::Nc(args) => tcp::nc(&args, environment),
        HubCommand::Proxy(args) => tcp::proxy(&args, environment),
        HubCommand::Service(command) => services::run(command, environment),
        HubCommand::Whoami(args) => whoami::run(&args, environment),
    }
}
