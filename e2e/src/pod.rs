//! A pod as the program in it sees one: the service account's folder in its place, the API server's address in
//! the environment. Everything else is this machine.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use fairlead_testkit::process::Place;

use crate::kube::Cluster;
use crate::kubectl::Kubectl;

/// Where every pod finds its service account.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Puts `$2` in the place of the service account, in this mount namespace only, and becomes the rest. The
/// machine's own run folder stays behind symbolic links, because nothing may be made in it.
const ENTER: &str = r#"
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

/// One service account and the folder that a pod of it has.
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
    /// Applies `manifest`, which must leave a namespace and a service account of these names, and makes the
    /// folder with a first token.
    ///
    /// # Errors
    /// kubectl refuses the manifest or the token.
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

    /// Puts a fresh token in the place of the last one, which stays valid, and returns it.
    ///
    /// # Errors
    /// The API server gives none.
    pub async fn rotate_token(&self) -> anyhow::Result<String> {
        let token = self.new_token().await?;
        self.write_token(&token)?;
        Ok(token)
    }

    /// A token as the kubelet would ask for, without putting it anywhere.
    ///
    /// # Errors
    /// The API server gives none.
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

    /// Puts any text in the token's place, at once as the kubelet does: in a new folder, to which the link
    /// `..data` is then moved.
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

impl Place for Pod {
    fn entrance(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["unshare".into(), "--mount".into()];
        if !rustix::process::geteuid().is_root() {
            words.extend(["--user".into(), "--map-root-user".into()]);
        }
        words.extend(["--", "sh", "-c", ENTER, "sh"].map(OsString::from));
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
