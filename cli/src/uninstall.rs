//! `fairlead agent uninstall`: removes Fairlead's objects from a cluster, and the identity of an agent that ran outside.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fairlead_agent::{
    purge::{PurgePlan, PurgeScope},
    uninstall::{self, Removal},
};
use fairlead_api::{Code, Failure};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, KubeObjects, ObjectsError, Upstream};
use fairlead_client::Environment;

use fairlead_commands::{block_on, confirm::confirm, output};

use crate::{agent, args};

/// Files of an agent's state folder.
const STATE_FILES: [&str; 2] = ["identity.json", "pending.key"];
const ADMIN_NEEDED: &str =
    "Use a kubeconfig of a cluster administrator; deleted objects are skipped.";

pub(crate) fn run(args: args::Uninstall, environment: &Environment) -> Result<(), Failure> {
    let args::Uninstall {
        kubeconfig,
        context,
        state,
        purge,
        yes,
    } = args;
    // Without a data folder there is no stored identity.
    let usual = || agent::state_folder(&kubeconfig, context.as_deref(), environment).ok();
    let folder = state.or_else(usual);
    let scope = match purge {
        true => PurgeScope::All,
        false => PurgeScope::Tool,
    };
    let target = ApiServerConfig::Kubeconfig {
        path: kubeconfig.clone(),
        context: context.clone(),
    };
    let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
    let cluster = KubeObjects::of_kubeconfig(kubeconfig, context);
    let (inventory, delivered, files) = block_on(async {
        let found = uninstall::find(&cluster).await.map_err(as_admin)?;
        let delivered = PurgePlan::find(upstream, scope).await?;
        Ok::<_, Failure>((found, delivered, state_files(folder.as_deref())))
    })??;
    let delivered_lines = delivered.lines();
    for line in &inventory.skipped {
        eprintln!("left: {line}");
    }
    if inventory.objects.is_empty() && files.is_empty() && delivered_lines.is_empty() {
        return Ok(output::print(
            "Nothing of Fairlead's is left to remove in this cluster.\n",
        )?);
    }
    eprintln!("To be removed:");
    let objects = inventory.objects.iter().map(ToString::to_string);
    let shown = files.iter().map(|file| file.display().to_string());
    let objects = objects.chain(delivered_lines);
    objects.chain(shown).for_each(|line| eprintln!("  {line}"));
    confirm(yes, "Remove all of this?")?;
    block_on(remove_all(&cluster, &inventory.objects, &delivered))??;
    for file in &files {
        remove_file(file)?;
        output::print(&format!("Deleted {}.\n", file.display()))?;
    }
    // The folder is removed only if it is empty.
    let _ = folder.map(fs::remove_dir);
    Ok(output::print(
        "A hub still lists the cluster: `fairlead cluster delete NAME` removes it there.\n",
    )?)
}

/// Deletes the agent and its rights first, so that it corrects no drift; then delivered objects; then namespaces, of which
/// one has the journals that a second run would need.
async fn remove_all(
    cluster: &KubeObjects,
    objects: &[uninstall::InstalledObject],
    delivered: &PurgePlan,
) -> Result<(), Failure> {
    let (namespaces, others): (Vec<_>, Vec<_>) = objects
        .iter()
        .cloned()
        .partition(uninstall::InstalledObject::is_namespace);
    remove(cluster, &others).await?;
    let mut unprinted = Ok(());
    let mut log = |line: String| {
        if let Err(error) = output::print(&format!("{line}\n")) {
            unprinted = Err(error);
        }
    };
    delivered.run(&mut log).await?;
    unprinted?;
    remove(cluster, &namespaces).await
}

/// Deletes all objects, and continues after a failure.
async fn remove(
    cluster: &KubeObjects,
    objects: &[uninstall::InstalledObject],
) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for object in objects {
        match uninstall::remove(cluster, object).await {
            Ok(Removal::Deleted) => output::print(&format!("Deleted {object}.\n"))?,
            Ok(Removal::Missing) => output::print(&format!("{object} does not exist.\n"))?,
            Ok(Removal::Kept(cause)) => eprintln!("left: {object}: {cause}"),
            Err(error) => {
                let failure = as_admin(error);
                eprintln!("not deleted: {object}: {}", failure.cause);
                failed.push((object, failure));
            }
        }
    }
    let names: Vec<String> = failed.iter().map(|(it, _)| it.to_string()).collect();
    match failed.into_iter().next() {
        None => Ok(()),
        Some((_, first)) => {
            let cause = format!("not deleted: {}", names.join("; "));
            Err(Failure { cause, ..first })
        }
    }
}

/// Failure that names an administrator's kubeconfig as next step if a right is missing.
fn as_admin(error: ObjectsError) -> Failure {
    let is_forbidden = matches!(error, ObjectsError::Forbidden(_));
    let failure = Failure::from(error);
    match is_forbidden {
        true => failure.next(ADMIN_NEEDED),
        false => failure,
    }
}

fn state_files(folder: Option<&Path>) -> Vec<PathBuf> {
    let files = folder
        .into_iter()
        .flat_map(|folder| STATE_FILES.map(|name| folder.join(name)));
    files.filter(|file| file.exists()).collect()
}

fn remove_file(file: &Path) -> Result<(), Failure> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let detail = format!("{}: {error}", file.display());
            Err(Failure::because(Code::CannotWrite, detail))
        }
        _ => Ok(()),
    }
}
