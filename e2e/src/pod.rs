//! A pod as its program finds it: the service account's folder, and the API server's address in the
//! environment. Everything else is this machine.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use fairlead_testkit::process::ProcessLocation;

use crate::kube::Cluster;
use crate::kubectl::Kubectl;

/// Path of the service account in every pod.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Script that mounts `$2` over the service account in its own mount namespace and becomes the program. /run
/// becomes a folder of symbolic links to its former entries, since nothing may be created in it.
const ENTER_SCRIPT: &str = r#"
set -eu
host=$1 account=$2
shift 2
run=$(readlink -f /var/run)
mount --rbind "$run" "$host"
mount -t tmpfs -o mode=755 tmpfs "$run"
for entry in "$host"/*; do
    [ "${entry##*/}" = secrets ] || ln -s "$entry" "$run/"
done
mkdir -p "$run/secrets/kubernetes.io/serviceaccount"
mount --bind "$account" "$run/secrets/kubernetes.io/serviceaccount"
exec "$@"
"#;

/// A service account, and the folder that its pods mount.
#[derive(Debug)]
pub struct Pod {
    account: PathBuf,
    /// Copy of the entries of /run, mounted over it.
    host_run: PathBuf,
    api_port: u16,
    kubectl: Kubectl,
    ca_pem: String,
    namespace: String,
    service_account: String,
    generation: AtomicU32,
}

impl Pod {
    /// Applies `manifest`, which must create this namespace and service account, and writes a first token.
    ///
    /// # Errors
    /// kubectl rejects the manifest or the token.
    pub async fn install(
        cluster: &Cluster,
        manifest: &str,
        namespace: &str,
        service_account: &str,
    ) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = cluster.dir().join("pods").join(number.to_string());
        let (account, host_run) = (own.join("account"), own.join("host-run"));
        fs::create_dir_all(&account)?;
        fs::create_dir_all(&host_run)?;
        let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(manifest);
        apply.run().await?.success()?;
        let pod = Self {
            account: account.canonicalize()?,
            host_run: host_run.canonicalize()?,
            api_port: cluster.api_port(),
            kubectl: cluster.kubectl(),
            ca_pem: cluster.ca_pem().to_owned(),
            namespace: namespace.to_owned(),
            service_account: service_account.to_owned(),
            generation: AtomicU32::new(0),
        };
        pod.rotate_token().await?;
        for name in ["token", "ca.crt", "namespace"] {
            symlink(PathBuf::from("..data").join(name), pod.account.join(name))?;
        }
        Ok(pod)
    }

    /// Replaces the token by a new one and returns it. The old one stays valid.
    ///
    /// # Errors
    /// The API server issues none.
    pub async fn rotate_token(&self) -> anyhow::Result<String> {
        let token = self.new_token().await?;
        self.write_token(&token)?;
        Ok(token)
    }

    /// Requests a token as the kubelet does, without writing it.
    ///
    /// # Errors
    /// The API server issues none.
    pub async fn new_token(&self) -> anyhow::Result<String> {
        let create = self.kubectl.clone().args([
            "create",
            "token",
            &self.service_account,
            "--namespace",
            &self.namespace,
            "--duration=1h",
        ]);
        Ok(create.run().await?.success()?.trim_end().to_owned())
    }

    /// Replaces the token atomically as the kubelet does: it creates a folder and moves the link `..data` to
    /// it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write_token(&self, token: &str) -> anyhow::Result<()> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let name = format!("..generation-{generation}");
        let account = &self.account;
        let folder = account.join(&name);
        fs::create_dir(&folder)?;
        fs::write(folder.join("token"), token)?;
        fs::write(folder.join("ca.crt"), &self.ca_pem)?;
        fs::write(folder.join("namespace"), &self.namespace)?;
        let last = fs::read_link(account.join("..data")).ok();
        symlink(&name, account.join("..data_tmp"))?;
        fs::rename(account.join("..data_tmp"), account.join("..data"))
            .context("cannot move ..data to the new token")?;
        if let Some(last) = last {
            fs::remove_dir_all(account.join(last))?;
        }
        Ok(())
    }

    /// The folder that a program in the pod finds at [`SERVICE_ACCOUNT`].
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.account
    }
}

impl ProcessLocation for Pod {
    fn entrance(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["unshare".into(), "--mount".into()];
        if !rustix::process::geteuid().is_root() {
            words.extend(["--user".into(), "--map-root-user".into()]);
        }
        words.extend(["--", "sh", "-c", ENTER_SCRIPT, "sh"].map(OsString::from));
        words.push(self.host_run.clone().into());
        words.push(self.account.clone().into());
        words
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("KUBERNETES_SERVICE_HOST".into(), "127.0.0.1".into()),
            (
                "KUBERNETES_SERVICE_PORT".into(),
                self.api_port.to_string().into(),
            ),
        ]
    }
}
