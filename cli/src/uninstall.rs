//! `fairlead agent uninstall`: removes Fairlead's objects from a cluster, and the identity of an agent that ran outside.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fairlead_agent::{
    AdoptedTool,
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

/// Parts of a cluster that belong to Fairlead.
struct RemovalPlan {
    objects: Vec<uninstall::InstalledObject>,
    /// Tools that get their objects back.
    adopted: Vec<AdoptedTool>,
    delivered: PurgePlan,
}

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
    let (plan, skipped, files) = block_on(async {
        let found = uninstall::find(&cluster).await.map_err(as_admin)?;
        let plan = RemovalPlan {
            objects: found.objects,
            adopted: AdoptedTool::find(Arc::clone(&upstream)).await?,
            delivered: PurgePlan::find(upstream, scope).await?,
        };
        Ok::<_, Failure>((plan, found.skipped, state_files(folder.as_deref())))
    })??;
    let delivered_lines = plan.delivered.lines();
    for line in &skipped {
        eprintln!("left: {line}");
    }
    let is_clean = plan.objects.is_empty() && plan.adopted.is_empty();
    if is_clean && files.is_empty() && delivered_lines.is_empty() {
        return Ok(output::print(
            "Nothing of Fairlead's is left to remove in this cluster.\n",
        )?);
    }
    for tool in &plan.adopted {
        eprintln!("To be returned: {tool}");
    }
    eprintln!("To be removed:");
    let objects = plan.objects.iter().map(ToString::to_string);
    let shown = files.iter().map(|file| file.display().to_string());
    let objects = objects.chain(delivered_lines);
    objects.chain(shown).for_each(|line| eprintln!("  {line}"));
    confirm(yes, "Remove all of this?")?;
    block_on(remove_all(&cluster, &plan))??;
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

/// Deletes the agent and its rights first, so that it corrects no drift. An adopted tool gets its objects back before
/// delivered ones go, because those are the same until then. Namespaces are last: one has the journals that a second run
/// would need.
async fn remove_all(cluster: &KubeObjects, plan: &RemovalPlan) -> Result<(), Failure> {
    let (namespaces, others): (Vec<_>, Vec<_>) = plan
        .objects
        .iter()
        .cloned()
        .partition(uninstall::InstalledObject::is_namespace);
    remove(cluster, &others).await?;
    for tool in &plan.adopted {
        tool.restore().await?;
        output::print(&format!("Returned {tool}.\n"))?;
    }
    let mut unprinted = Ok(());
    let mut log = |line: String| {
        if let Err(error) = output::print(&format!("{line}\n")) {
            unprinted = Err(error);
        }
    };
    plan.delivered.run(&mut log).await?;
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
