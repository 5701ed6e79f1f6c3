//! Checks of releases of Helm: `FL-6220` to `FL-6239`.

use super::{Code, MISSING};

/// Releases of Helm in a cluster.
pub(super) const fn in_cluster(code: Code) -> &'static str {
    match code {
        Code::HelmFailed => {
            "`fairlead run logs RUN` has everything that Helm printed. `helm history RELEASE -n NAMESPACE` in the cluster shows its revisions."
        }
        Code::HelmHookFailed => {
            "The cause names the hook. In the cluster, `kubectl describe job NAME` and `kubectl logs job/NAME` show its pods, unless the chart deletes them."
        }
        Code::HelmValuesRefused => {
            "Render the chart with the same values: `helm template CHART --values FILE`. It checks `values.schema.json`, too."
        }
        Code::HelmTemplateFailed => {
            "Render the chart with the same values: `helm template CHART --values FILE --debug`."
        }
        Code::HelmKubernetesVersion => {
            "Compare `kubeVersion` in the file Chart.yaml with `kubectl version` in the cluster."
        }
        Code::HelmFieldImmutable => {
            "Compare the object in the cluster with the rendered one: `helm template CHART --values FILE`."
        }
        Code::HelmTimeout => {
            "`fairlead run logs RUN` shows the last step of Helm. A hook whose pods do not start is the most frequent cause."
        }
        Code::HelmForeignRevision => {
            "`helm history RELEASE -n NAMESPACE` in the cluster shows all revisions; those of deliveries name their run."
        }
        Code::HelmMemory => {
            "`kubectl describe pod` in the agent's namespace shows the last state and the limit of the container `runner`."
        }
        Code::HelmObjectOwned => {
            "`kubectl get KIND NAME -o yaml` shows the owner: the labels `app.kubernetes.io/managed-by` and `fairlead/bundle`, and the annotations `meta.helm.sh`."
        }
        Code::HelmChartInvalid => "Run `helm lint FOLDER` on the folder of the bundle.",
        Code::HelmReleaseLocked => {
            "`helm history RELEASE -n NAMESPACE` shows the pending revision and its time."
        }
        Code::RunnerAway => {
            "`kubectl logs -c runner` shows the log of the runner. An agent outside of a pod starts the runner itself, with the Helm of `--helm`."
        }
        Code::HelmRolledBack => {
            "`fairlead deployment get CLUSTER BUNDLE` shows the cause, and `helm history RELEASE -n NAMESPACE` both revisions."
        }
        Code::HelmRecordUnreadable => {
            "`kubectl get secrets -l owner=helm -n NAMESPACE` lists the records. The cause names the damaged one."
        }
        Code::HelmFieldConflict => {
            "`kubectl get KIND NAME -o yaml --show-managed-fields` lists the fields of each manager."
        }
        _ => MISSING,
    }
}
