//! Refuses to start if keys or database of an earlier hub are missing: new ones would silently
//! replace them.

use std::fs;

use fairlead_api::{Code, Failure};
use fairlead_store::{DataDir, Place, Store, is_new};
use tracing::warn;

const NEXT: &str = "Restore the missing files from a backup (`fairlead restore`), or check `--data` and `--store`; to continue without them, start once with `--accept-data-loss`.";

/// Refuses a new store in a folder with the CA of an earlier hub. Call before the store is created.
///
/// # Errors
/// `FL-4103` unless the loss is accepted.
pub(crate) async fn refuse_lost_store(
    dir: &DataDir,
    place: &Place,
    accepted: bool,
) -> Result<(), Failure> {
    let key = dir.join("ca.key");
    if !key.exists() || !is_new(place).await? {
        return Ok(());
    }
    let cause = format!(
        "{} belongs to an earlier hub, and the store {place} is missing or empty. With a new store all clusters, tenants, tokens and facts of that hub are gone",
        key.display()
    );
    judge(cause, accepted)
}

/// Refuses a store in use without the keys that its clusters or tokens depend on. Call before keys
/// are created.
///
/// # Errors
/// `FL-4103` unless the loss is accepted.
pub(crate) async fn refuse_lost_keys(
    dir: &DataDir,
    store: &Store,
    accepted: bool,
) -> Result<(), Failure> {
    let view = store.view();
    let clusters = view.clusters().count();
    let used = clusters > 0 || view.tokens().next().is_some();
    let sealed = store.keys().await?.is_some();
    if !used || sealed {
        return Ok(());
    }
    let (ca, bootstrap) = (dir.join("ca.key"), dir.join("bootstrap.key"));
    if !ca.exists() {
        let cause = format!(
            "{} is missing, and the store is in use, with {clusters} clusters. With a new CA each cluster has to enrol again with a new join string, and each kubeconfig has to be written again",
            ca.display()
        );
        judge(cause, accepted)?;
        set_aside(dir)?;
    } else if !dir.join("ca.pem").exists() {
        warn!("ca.pem was missing; reissued from ca.key, which defines the trust");
    }
    if !bootstrap.exists() {
        let cause = format!(
            "{} is missing, and the store is in use, with {clusters} clusters. With a new key no bootstrap token or join string of today can enrol an agent",
            bootstrap.display()
        );
        judge(cause, accepted)?;
    }
    Ok(())
}

fn judge(cause: String, accepted: bool) -> Result<(), Failure> {
    if accepted {
        warn!(cause, "data loss accepted");
        return Ok(());
    }
    Err(Failure::with_cause(Code::DataDir, cause).next(NEXT))
}

/// A certificate without its key is useless and would block a new one.
fn set_aside(dir: &DataDir) -> Result<(), Failure> {
    let certificate = dir.join("ca.pem");
    match fs::rename(&certificate, dir.join("ca.pem.old")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::because(
            Code::DataDir,
            format_args!("{}: {error}", certificate.display()),
        )),
        _ => Ok(()),
    }
}
