//! SSH keys and syncs of GitOps tools.

use super::{Code, MISSING};

/// Keys and syncs in a cluster.
pub(super) const fn in_cluster(code: Code) -> &'static str {
    match code {
        Code::GitOpsForeignSecret => {
            "`kubectl get secret NAME -n NAMESPACE --show-labels` shows no label `app.kubernetes.io/managed-by=fairlead`. A bootstrap of Flux by hand makes such a Secret."
        }
        Code::GitOpsForbidden => {
            "`kubectl auth can-i get secret/NAME -n NAMESPACE --as system:serviceaccount:fairlead:fairlead-agent` answers no. The cause names verb and path."
        }
        Code::GitOpsToolAbsent => {
            "`kubectl get namespace flux-system` or `kubectl get namespace argocd` fails. `fairlead cluster config CLUSTER` shows the desired tool."
        }
        Code::GitOpsRepositoryUnusable => {
            "`fairlead cluster config CLUSTER` shows URL and host keys of the repository. `ssh-keyscan HOST` prints the keys of a server."
        }
        Code::GitOpsHostKeyRefused => {
            "`ssh-keyscan HOST` prints the keys of the server now. Compare them with `hostKeys` in `fairlead cluster config CLUSTER`, and ask the administrator of the server."
        }
        Code::GitOpsSyncFailed => {
            "`kubectl get gitrepository flux-system -n flux-system` shows the same message. `fairlead cluster config CLUSTER` shows the keys of the agent and whether the Git server has them."
        }
        Code::GitOpsKeyNotRegistered => {
            "`fairlead cluster get CLUSTER -o yaml` shows the key as `steward-next`, and the state of the repository. A hub without that Git server never confirms a key."
        }
        Code::GitOpsRotationFailed => {
            "The cause has the message of the tool with the new key. `fairlead facts --fact gitops --since 7d` shows the steps of the rotation."
        }
        Code::GitOpsUnreachable => {
            "The agent's log has the line `GitOps key or sync has a problem` with the same cause."
        }
        Code::GitOpsRollbackStopped => {
            "`kubectl get events -n NAMESPACE --field-selector reason=RolledBack` shows the changes that were taken back. `fairlead facts CLUSTER` lists the last repairs in the fact `gitops`."
        }
        Code::GitOpsRepairPaused => {
            "`kubectl get namespace NAMESPACE -o yaml` or the object itself shows the annotation `fairlead/paused`."
        }
        Code::GitOpsWorkloadUnavailable => {
            "`kubectl get deployments,pods -n NAMESPACE` shows the workload, and `kubectl describe pod POD` the reason."
        }
        Code::GitOpsDefinitionMissing => {
            "`kubectl get crds` does not list the definition that the cause names."
        }
        Code::GitOpsSyncOverdue => {
            "`kubectl get gitrepositories,kustomizations -A` or `kubectl get applications -A` shows the last sync, and whether it is suspended."
        }
        Code::GitOpsToolFound => {
            "`kubectl get deployments -A -l app.kubernetes.io/part-of=flux --show-managed-fields -o yaml` shows who has installed it, likewise with `argocd`. The fact `gitops` has version and field manager in `found`."
        }
        Code::GitOpsManifestUnusable => {
            "`sha256sum` of the file in the folder of `--gitops-manifests`, and `fairlead cluster agent get CLUSTER`: version and hash in the settings are those of the file."
        }
        Code::GitOpsKeysUnusable => {
            "`gpg --show-keys KEYFILE` shows an OpenPGP key, `ssh-keygen -l -f KEYFILE` one of SSH. `fairlead cluster agent get CLUSTER -o yaml` shows tool, mode and keys."
        }
        Code::PurgeNeedsAgent => {
            "`fairlead cluster get CLUSTER` shows whether an agent is connected, and `fairlead deployment list --cluster CLUSTER` the objects that were delivered."
        }
        Code::PurgeUnfinished => {
            "`fairlead deployment list --cluster CLUSTER` shows what is left, and `fairlead run list` the runs that remove it."
        }
        _ => MISSING,
    }
}
