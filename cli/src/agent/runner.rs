//! Runner of an agent: a container of its pod, or a process that the agent starts outside of a pod.

use std::path::{Path, PathBuf};

use fairlead_agent::{IdentityLocation, Launch, RunnerConfig};
use fairlead_client::Environment;
use fairlead_runtime::config::Reader;

/// Reads the settings of the runner. None: there is no Helm.
pub(super) fn read(
    reader: &mut Reader,
    state: Option<&IdentityLocation>,
    environment: &Environment,
) -> Option<RunnerConfig> {
    let socket = reader.optional::<PathBuf>("runner-socket");
    let given = reader.optional::<PathBuf>("helm");
    if let Some(socket) = socket {
        if given.is_some() {
            reader.mistake("runner-socket and helm exclude each other: the runner knows its Helm");
        }
        return Some(RunnerConfig::Socket(socket));
    }
    let missing = given.as_ref().filter(|path| !path.is_file());
    if let Some(path) = missing {
        reader.mistake(format!("helm: {} is no file", path.display()));
        return None;
    }
    // In a pod, the runner is a container of its own.
    let Some(IdentityLocation::Dir(folder)) = state else {
        return None;
    };
    let helm = given.or_else(|| in_path(environment.get("PATH")?))?;
    let helm = std::path::absolute(helm).ok()?;
    let program = std::env::current_exe().ok()?;
    let command = vec![program.into(), "runner".into()];
    // The folder of the state may be relative; its name tells runners apart.
    let folder = std::path::absolute(folder).ok()?;
    Some(RunnerConfig::Started(Launch::for_agent(
        command, helm, &folder,
    )))
}

/// Helm in the folders of the variable PATH.
fn in_path(folders: &str) -> Option<PathBuf> {
    let mut found = std::env::split_paths(folders).map(|folder| folder.join("helm"));
    found.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = path.metadata();
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::in_path;

    #[test]
    fn program_in_path_is_an_executable_file() {
        let folder = tempfile::tempdir().unwrap();
        let [text, program] = ["text", "program"].map(|name| folder.path().join(name));
        for (place, mode) in [(&text, 0o644), (&program, 0o755)] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("helm"), "").unwrap();
            std::fs::set_permissions(place.join("helm"), Permissions::from_mode(mode)).unwrap();
        }
        let none = folder.path().join("none");
        let folders = std::env::join_paths([&none, &text, &program]).unwrap();
        let found = in_path(folders.to_str().unwrap());
        assert_eq!(found, Some(program.join("helm")));
        assert_eq!(in_path(text.to_str().unwrap()), None);
    }
}
