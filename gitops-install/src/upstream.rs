//! Manifests of the tools as their projects publish them: embedded, or from a file that the settings pin by its hash.

use std::io::Read;

use aws_lc_rs::digest::{SHA256, digest};
use fairlead_api::{gitops::GitOpsTool, hex};
use fairlead_manifests::yaml;
use flate2::read::GzDecoder;
use serde_json::Value;

/// Limit of a manifest, in bytes. That of all controllers of Flux has half a MiB, and that of Argo CD two.
const MAX_MANIFEST_BYTES: u64 = 8 * 1024 * 1024;

/// Embedded manifest. `manifests/build` makes the files again and prints the hashes.
struct Embedded {
    version: &'static str,
    sha256: &'static str,
    compressed: &'static [u8],
}

const FLUX: Embedded = Embedded {
    version: "2.9.5",
    sha256: "b25985ed6cbee05e22d3e156a56b5dcd13b01297eb2ce9850851980543d97d1c",
    compressed: include_bytes!("../manifests/flux-2.9.5.yaml.gz"),
};

const ARGOCD: Embedded = Embedded {
    version: "3.4.13",
    sha256: "0f7790b2cc98323c5d049de1005b71fad9beba1cc1e9b77d97fa2916ca65dc01",
    compressed: include_bytes!("../manifests/argocd-3.4.13.yaml.gz"),
};

const fn embedded(tool: GitOpsTool) -> Option<&'static Embedded> {
    match tool {
        GitOpsTool::Flux => Some(&FLUX),
        GitOpsTool::Argocd => Some(&ARGOCD),
        GitOpsTool::None => None,
    }
}

/// Version of the embedded manifest.
#[must_use]
pub fn embedded_version(tool: GitOpsTool) -> Option<&'static str> {
    embedded(tool).map(|it| it.version)
}

/// Name of a manifest in the folder of the hub, like `flux-2.9.5.yaml`.
#[must_use]
pub fn file_name(tool: GitOpsTool, version: &str) -> String {
    format!("{}-{version}.yaml", tool.as_str())
}

/// Manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestProblem {
    /// No tool.
    #[error("there is no manifest without a tool")]
    NoTool,
    /// Neither embedded nor in the folder.
    #[error("version {0} is not embedded, and the hub has no file {1} for it")]
    Unknown(String, String),
    /// A version that is not embedded needs a hash.
    #[error("version {0} is not embedded, and the settings have no sha256 for it")]
    Unpinned(String),
    /// Other content.
    #[error("the manifest has the SHA-256 {found}, and the settings have {pinned}")]
    Hash {
        /// Hash of the content.
        found: String,
        /// Hash in the settings.
        pinned: String,
    },
    /// Too large.
    #[error("the manifest has more than {MAX_MANIFEST_BYTES} bytes")]
    TooLarge,
    /// No list of objects.
    #[error("{0}")]
    Syntax(String),
}

/// Objects of a tool, as its project publishes them.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolManifest {
    /// The tool.
    pub tool: GitOpsTool,
    /// Version without `v`.
    pub version: String,
    /// Hash of the text, in hexadecimal.
    pub sha256: String,
    pub(crate) objects: Vec<Value>,
}

impl ToolManifest {
    /// Reads the embedded manifest.
    ///
    /// # Errors
    /// [`ManifestProblem`]
    pub fn embedded(tool: GitOpsTool) -> Result<Self, ManifestProblem> {
        let embedded = embedded(tool).ok_or(ManifestProblem::NoTool)?;
        let mut text = Vec::new();
        let mut reader = GzDecoder::new(embedded.compressed).take(MAX_MANIFEST_BYTES + 1);
        let read = reader.read_to_end(&mut text);
        read.map_err(|error| ManifestProblem::Syntax(error.to_string()))?;
        Self::pinned(tool, embedded.version, embedded.sha256, &text)
    }

    /// Reads the text of a manifest with this hash.
    ///
    /// # Errors
    /// [`ManifestProblem`]
    pub fn pinned(
        tool: GitOpsTool,
        version: &str,
        sha256: &str,
        text: &[u8],
    ) -> Result<Self, ManifestProblem> {
        if u64::try_from(text.len()).is_ok_and(|length| length > MAX_MANIFEST_BYTES) {
            return Err(ManifestProblem::TooLarge);
        }
        let found = hex::encode(digest(&SHA256, text).as_ref());
        if found != sha256 {
            let pinned = sha256.to_owned();
            return Err(ManifestProblem::Hash { found, pinned });
        }
        let manifests = yaml::parse(&file_name(tool, version), text);
        let manifests = manifests.map_err(|error| ManifestProblem::Syntax(error.to_string()))?;
        Ok(ToolManifest {
            tool,
            version: version.to_owned(),
            sha256: found,
            objects: manifests.into_iter().map(|it| it.object).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_manifests_have_their_pinned_hashes() {
        for tool in [GitOpsTool::Flux, GitOpsTool::Argocd] {
            let manifest = ToolManifest::embedded(tool).unwrap();
            assert_eq!(Some(&*manifest.version), embedded_version(tool));
            assert!(manifest.objects.len() > 15, "{tool:?}");
        }
        let none = ToolManifest::embedded(GitOpsTool::None);
        assert_eq!(none, Err(ManifestProblem::NoTool));
    }

    #[test]
    fn text_with_another_hash_is_refused() {
        let text = b"apiVersion: v1\nkind: Namespace\nmetadata: { name: flux-system }\n";
        let pinned = |sha256: &str| ToolManifest::pinned(GitOpsTool::Flux, "9.9.9", sha256, text);
        let refused = pinned(&"0".repeat(64));
        let Err(ManifestProblem::Hash { found, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(pinned(&found).unwrap().objects.len(), 1);
    }
}
