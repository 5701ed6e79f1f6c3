//! `fairlead kubeconfig`: a kubeconfig with one context per cluster.

use std::path::Path;

use fairlead_api::{Code, Failure};
use fairlead_client::{
    Environment, HubClient, files,
    kubeconfig::{self, NewKubeconfig, ServerAddress},
};

use crate::{
    args::{Kubeconfig, KubeconfigAddress, KubeconfigCommand, KubeconfigSync},
    confirm::confirm,
    output,
    runtime::block_on,
};

pub(crate) fn run(args: &Kubeconfig, environment: &Environment) -> Result<(), Failure> {
    if let Some(KubeconfigCommand::Sync(args)) = &args.command {
        return sync(args, environment);
    }
    let hub = HubClient::from_environment(environment)?;
    let address = args.address.map(ServerAddress::from);
    let generated =
        kubeconfig::generate(&hub, &args.clusters, address, &args.context_name, args.exec);
    let made = block_on(generated)??;
    if made.contexts.is_empty() {
        output::note(
            "No clusters, so there are no contexts: register one with `fairlead cluster create`.",
        );
    }
    match (&args.output, args.merge) {
        (Some(path), false) if path.as_os_str() != "-" => {
            replace(path, &made.to_yaml()?, &made.hub, args.yes)?;
            Ok(output::print(&format!(
                "Wrote {} with {}.\n",
                path.display(),
                counted(&made)
            ))?)
        }
        (_, false) => Ok(output::print(&made.to_yaml()?)?),
        (Some(path), true) if path.as_os_str() == "-" => {
            let detail = "--merge needs a file, which standard output is not";
            Err(Failure::because(Code::Usage, detail))
        }
        (_, true) if made.contexts.is_empty() => Ok(()),
        (path, true) => {
            let path = match path {
                Some(path) => path.clone(),
                None => kubeconfig::default_path(environment)?,
            };
            let merged = kubeconfig::merge_into(&path, &made.config, &made.hub, args.set_current)?;
            let (path, count) = (path.display(), counted(&made));
            let backup = merged.backup.map_or(String::new(), |backup| {
                format!(" The file as it was: {}.", backup.display())
            });
            Ok(output::print(&match merged.changed {
                true => format!("Merged {count} into {path}.{backup}\n"),
                false => format!("{path} has {count} already.\n"),
            })?)
        }
    }
}

/// Makes the contexts of a file those of the hub.
fn sync(args: &KubeconfigSync, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    let made = kubeconfig::generate(&hub, &[], None, &args.context_name, args.exec);
    let made = block_on(made)??;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => kubeconfig::default_path(environment)?,
    };
    let outcome = kubeconfig::sync_into(&path, &made.config, &made.hub)?;
    let mut lines: Vec<String> = Vec::new();
    lines.extend(outcome.added.iter().map(|name| format!("added {name}")));
    let renamed = outcome.renamed.iter();
    lines.extend(renamed.map(|(old, new)| format!("renamed {old} to {new}")));
    lines.extend(outcome.removed.iter().map(|name| format!("removed {name}")));
    if lines.is_empty() {
        lines.push(format!("{} is up to date.", path.display()));
    }
    Ok(output::print(&format!("{}\n", lines.join("\n")))?)
}

fn counted(made: &NewKubeconfig) -> String {
    match made.contexts.as_slice() {
        [one] => format!("the context {one}"),
        several => format!("{} contexts", several.len()),
    }
}

impl From<KubeconfigAddress> for ServerAddress {
    fn from(address: KubeconfigAddress) -> Self {
        match address {
            KubeconfigAddress::Path => ServerAddress::Path,
            KubeconfigAddress::Name => ServerAddress::Name,
        }
    }
}

/// Writes a file; replacing a file with entries of other hubs needs confirmation.
///
/// # Errors
/// `FL-4118` without confirmation, `FL-4112` if the file cannot be written.
fn replace(path: &Path, text: &str, hub: &str, yes: bool) -> Result<(), Failure> {
    if kubeconfig::has_other_entries(path, hub)? {
        let question = format!(
            "{} has entries that do not belong to the hub {hub}; all of them would be deleted. Continue?",
            path.display()
        );
        let refused = confirm(yes, &question);
        refused.map_err(|it| it.next("Keep them with `--merge`, or confirm with `--yes`."))?;
    }
    Ok(files::write(path, text)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OURS: &str = "clusters:\n- name: c-1@hub\n  cluster: {server: https://hub}\ncontexts:\n- name: demo@hub\n  \
        context: {cluster: c-1@hub, user: fairlead@hub}\nusers:\n- name: fairlead@hub\n  user: {token: t}\n\
        current-context: demo@hub\n";
    const OTHERS: &str = "# mine\nkind: Config\ncurrent-context: kind\nusers:\n- name: kind\n  user: {password: '0123'}\n";

    #[test]
    fn file_with_other_entries_is_replaced_only_when_confirmed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        replace(&path, OURS, "hub", false).unwrap();
        replace(&path, OURS, "hub", false).unwrap();
        fs::write(&path, OTHERS).unwrap();
        let refused = replace(&path, OURS, "hub", false).unwrap_err();
        assert_eq!(refused.code, Code::NotConfirmed);
        assert_eq!(fs::read_to_string(&path).unwrap(), OTHERS);
        replace(&path, OURS, "hub", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), OURS);
    }
}
