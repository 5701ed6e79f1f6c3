//! Root of a container: the programs of this machine and the image's own, read-only, with the pod's volumes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::text;

/// Folder of the image's programs.
const IMAGE_FOLDER: &str = "/usr/local/bin";
/// User of a container without another one, as in the image.
const IMAGE_UID: u64 = 65532;

/// Script that makes the root at `$1` and becomes the program in it, as user `$4` and group `$5`. `$2` has the programs of the
/// image, `$3` the hosts file. Up to `--` follow source, target and mode of each mount.
const ENTER_SCRIPT: &str = r#"
set -eu
root=$1 image=$2 hosts=$3 uid=$4 gid=$5
shift 5
mount -t tmpfs -o mode=755 tmpfs "$root"
for name in bin sbin lib lib64 usr; do
    if [ -L "/$name" ]; then
        cp -a "/$name" "$root/$name"
    elif [ -d "/$name" ]; then
        mkdir "$root/$name"
        mount --bind "/$name" "$root/$name"
        mount -o remount,bind,ro "$root/$name"
    fi
done
mount -t tmpfs -o mode=755 tmpfs "$root/usr/local"
mkdir -p "$root/usr/local/bin" "$root/etc/ssl" "$root/dev" "$root/proc" "$root/tmp" "$root/var"
mount --bind "$image" "$root/usr/local/bin"
mount -o remount,ro "$root/usr/local"
[ ! -d /etc/ssl ] || mount --bind /etc/ssl "$root/etc/ssl"
touch "$root/etc/hosts" "$root/etc/passwd"
mount --bind "$hosts" "$root/etc/hosts"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    [ "$3" != ro ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"
"#;

/// A folder of the pod in a container.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) source: PathBuf,
    pub(super) target: String,
    pub(super) read_only: bool,
}

/// Command prefix that leads a program into the root.
pub(super) fn entrance(
    place: &Path,
    image: &Path,
    hosts: &Path,
    (uid, gid): (u64, u64),
    mounts: &[Mount],
) -> Vec<OsString> {
    let words = ["unshare", "--mount", "--", "sh", "-c", ENTER_SCRIPT, "sh"];
    let mut words: Vec<OsString> = words.map(OsString::from).into();
    words.extend([place, image, hosts].map(|it| it.as_os_str().to_owned()));
    words.extend([uid.to_string().into(), gid.to_string().into()]);
    for mount in mounts {
        let mode = if mount.read_only { "ro" } else { "rw" };
        words.extend([mount.source.clone().into_os_string()]);
        words.extend([mount.target.clone().into(), mode.into()]);
    }
    words.push("--".into());
    words
}

/// Program of an image with the entry point `fairlead`, or the container's own command.
pub(super) fn command(container: &Value) -> Vec<String> {
    let list = |field: &str| -> Vec<String> {
        let items = container
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut command = list("command");
    if command.is_empty() {
        command.push("fairlead".to_owned());
    }
    if let Some(program) = command.first_mut().filter(|it| !it.contains('/')) {
        *program = format!("{IMAGE_FOLDER}/{program}");
    }
    command.extend(list("args"));
    command
}

/// User and group of a container.
///
/// # Errors
/// It may run as root, or write to its root: the restricted standard and the charts refuse both.
pub(super) fn user(pod: &Value, container: &Value) -> anyhow::Result<(u64, u64)> {
    let context = |pointer: &str| {
        let own = container.pointer(&format!("/securityContext/{pointer}"));
        own.or_else(|| pod.pointer(&format!("/spec/securityContext/{pointer}")))
    };
    let is_true = |pointer: &str| context(pointer).and_then(Value::as_bool) == Some(true);
    anyhow::ensure!(
        is_true("runAsNonRoot") && is_true("readOnlyRootFilesystem"),
        "{}: not without root, or with a root that can be written",
        text(container, "/name")
    );
    let id = |pointer: &str| context(pointer).and_then(Value::as_u64);
    let uid = id("runAsUser").unwrap_or(IMAGE_UID);
    anyhow::ensure!(uid != 0, "runAsNonRoot, and the user is root");
    Ok((uid, id("runAsGroup").unwrap_or(uid)))
}
