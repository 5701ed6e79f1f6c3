//! Manifests of GitOps tools: the embedded ones, and those in a folder of the hub.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::gitops::{DesiredTool, GitOpsTool};
use fairlead_gitops_install::{ManifestProblem, ToolManifest, embedded_version, file_name};

/// Limit of parsed manifests in memory. A fleet has few versions at a time.
const MAX_CACHED: usize = 8;

/// Tool with the hash of its manifest; none: the embedded one.
type CacheKey = (GitOpsTool, String, Option<String>);

/// Manifests by tool, version and hash. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub struct ToolManifests {
    folder: Option<PathBuf>,
    cache: Arc<Mutex<HashMap<CacheKey, Arc<ToolManifest>>>>,
}

impl ToolManifests {
    /// Manifests of a folder (`--gitops-manifests`), and the embedded ones.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        ToolManifests {
            folder,
            cache: Arc::default(),
        }
    }

    /// Manifest for these settings.
    ///
    /// # Errors
    /// [`ManifestProblem`]
    pub fn load(&self, desired: &DesiredTool) -> Result<Arc<ToolManifest>, ManifestProblem> {
        let tool = desired.tool;
        let embedded = embedded_version(tool).ok_or(ManifestProblem::NoTool)?;
        let settings = &desired.installation;
        let version = settings.version.as_deref().unwrap_or(embedded);
        let key = (tool, version.to_owned(), settings.sha256.clone());
        let cached = self.lock().get(&key).cloned();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let manifest = match &settings.sha256 {
            None if version == embedded => ToolManifest::embedded(tool)?,
            None => return Err(ManifestProblem::Unpinned(version.to_owned())),
            Some(sha256) => self.of_folder(tool, version, sha256)?,
        };
        let manifest = Arc::new(manifest);
        let mut cache = self.lock();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(key, Arc::clone(&manifest));
        Ok(manifest)
    }

    fn of_folder(
        &self,
        tool: GitOpsTool,
        version: &str,
        sha256: &str,
    ) -> Result<ToolManifest, ManifestProblem> {
        let name = file_name(tool, version);
        let unknown = || ManifestProblem::Unknown(version.to_owned(), name.clone());
        let folder = self.folder.as_ref().ok_or_else(unknown)?;
        let text = fs::read(folder.join(&name)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unknown(),
            _ => ManifestProblem::Syntax(format!("{name}: {error}")),
        })?;
        ToolManifest::pinned(tool, version, sha256, &text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<CacheKey, Arc<ToolManifest>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::gitops::ToolInstallation;

    use super::*;

    fn flux(version: Option<&str>, sha256: Option<&str>) -> DesiredTool {
        DesiredTool {
            tool: GitOpsTool::Flux,
            adopt: false,
            installation: ToolInstallation {
                version: version.map(str::to_owned),
                sha256: sha256.map(str::to_owned),
                ..ToolInstallation::default()
            },
            verify: None,
        }
    }

    #[test]
    fn other_versions_need_a_file_with_the_pinned_hash() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = ToolManifests::new(Some(folder.path().to_owned()));
        assert!(manifests.load(&flux(None, None)).is_ok());
        let unpinned = manifests.load(&flux(Some("9.0.0"), None));
        assert_eq!(unpinned, Err(ManifestProblem::Unpinned("9.0.0".to_owned())));
        let zeros = "0".repeat(64);
        let unknown = manifests.load(&flux(Some("9.0.0"), Some(&zeros)));
        assert!(
            matches!(unknown, Err(ManifestProblem::Unknown(..))),
            "{unknown:?}"
        );

        let text = "apiVersion: v1\nkind: Namespace\nmetadata: { name: flux-system }\n";
        fs::write(folder.path().join("flux-9.0.0.yaml"), text).unwrap();
        let Err(ManifestProblem::Hash { found, .. }) =
            manifests.load(&flux(Some("9.0.0"), Some(&zeros)))
        else {
            panic!("another hash");
        };
        let read = manifests.load(&flux(Some("9.0.0"), Some(&found))).unwrap();
        assert_eq!(read.version, "9.0.0");
    }
}
