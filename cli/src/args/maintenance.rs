//! Arguments of the operations on all data of a hub.

use clap::{Parser, Subcommand};
use fairlead_commands::HubPlace;

#[derive(Parser)]
#[command(
    after_help = "Examples:\n  fairlead backup hub.age --recipient age1…\n  fairlead backup registry.backup --without-ca\n  fairlead backup hub.age --recipient age1… --store postgres://fairlead@db/fairlead"
)]
pub(crate) struct Backup {
    /// New file to write, readable by its owner only (0600), or - for standard output
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) place: HubPlace,
    /// Public key to encrypt the backup for, with age; repeatable. Required unless --without-ca is given
    #[arg(long, value_name = "AGE1…")]
    pub(crate) recipient: Vec<String>,
    /// Omit the CA and the key of bootstrap tokens; a hub restored from it needs --accept-data-loss and has a new CA
    #[arg(long)]
    pub(crate) without_ca: bool,
}

#[derive(Parser)]
pub(crate) struct Restore {
    /// Backup to restore, or - for standard input
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) place: HubPlace,
    /// Identity file of age-keygen that decrypts the backup
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<std::path::PathBuf>,
    /// Keep identities and API tokens of the backup valid: nothing was revoked or deleted since. Without it they are void
    /// until `fairlead confirm-restore`
    #[arg(long)]
    pub(crate) keep_access: bool,
    /// Deliver all bundles again, at the generation of the backup. Without it agents refuse generations that are older than
    /// those they know
    #[arg(long)]
    pub(crate) deliver_again: bool,
    /// Replace existing data
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Subcommand)]
pub(crate) enum StoreArgs {
    /// Check the whole store; the hub may run
    Check(HubPlace),
    /// Copy one store into another one and compare both; hubs on both must be stopped
    #[command(
        after_help = "Example:\n  fairlead store migrate --from sqlite:/var/lib/fairlead/fairlead.db --to postgres://fairlead@db/fairlead"
    )]
    Migrate {
        /// Source: sqlite:PATH or postgres://USER@HOST/DATABASE
        #[arg(long, value_name = "URL")]
        from: String,
        /// Destination: sqlite:PATH or postgres://USER@HOST/DATABASE
        #[arg(long, value_name = "URL")]
        to: String,
        /// File with the password of the stores; alternatively FAIRLEAD_STORE_PASSWORD
        #[arg(long, value_name = "FILE")]
        store_password_file: Option<std::path::PathBuf>,
        /// Replace existing data in the destination
        #[arg(long)]
        yes: bool,
    },
}
