//! Runs and journals of deliveries in a cluster.

use super::{Code, MISSING};

/// Runs in a cluster.
pub(super) const fn in_cluster(code: Code) -> &'static str {
    match code {
        Code::ObjectRefused => {
            "The cause quotes the API server. Apply the object by hand to see the whole message: `kubectl apply --server-side --dry-run=server -f FILE`."
        }
        Code::FieldConflict => {
            "The cause names field and manager. `kubectl get KIND NAME -n NAMESPACE -o yaml --show-managed-fields` lists the fields of all managers."
        }
        Code::ForeignObject => {
            "Look at the label `fairlead/bundle` and at the annotations `meta.helm.sh/release-name` and `meta.helm.sh/release-namespace` of the object."
        }
        Code::PruneBlocked => {
            "The cause lists the objects. An empty or renamed folder is a frequent cause. `kubectl get KIND -A -l fairlead/bundle=BUNDLE` lists the objects of the bundle."
        }
        Code::DeploymentWaits => {
            "The cause names a kind, a namespace, a bundle or a slot. `kubectl api-resources` lists the kinds of the cluster."
        }
        Code::NotReadyInTime => {
            "`kubectl describe KIND NAME -n NAMESPACE` and `kubectl get events -n NAMESPACE` show why the object is not ready."
        }
        Code::MissingRight => {
            "`kubectl auth can-i VERB RESOURCE -n NAMESPACE --as system:serviceaccount:fairlead-delivery:deployer` answers no. The cause has the missing rule."
        }
        Code::InvalidManifests => {
            "`kubectl apply --dry-run=client -f FILE` reads the file in the same way, except that it accepts keys that occur twice."
        }
        Code::OutcomeUnknown => {
            "`kubectl get secret release-BUNDLE -n fairlead-delivery -o yaml` shows run and step. The agent's log has the run's last lines."
        }
        Code::AccountUnusable => {
            "`kubectl get serviceaccount NAME -n NAMESPACE`, and `kubectl auth can-i create serviceaccounts/token -n NAMESPACE --as system:serviceaccount:fairlead:fairlead-agent`."
        }
        Code::SiteForbids => {
            "`kubectl get configmap fairlead-delivery -n fairlead-delivery -o yaml` shows kinds, namespaces and ServiceAccounts that the site allows."
        }
        Code::RunCancelled => {
            "The hub's log names the person in its line `run cancelled`. `fairlead run get RUN` shows when the run ended."
        }
        Code::ApiServerAway => {
            "The agent's log has the error of each request. `kubectl get --raw /readyz` in the cluster shows the state of the API server."
        }
        Code::JournalFailed => {
            "The cause quotes the API server. `kubectl auth can-i create secrets -n fairlead-delivery --as system:serviceaccount:fairlead:fairlead-agent` must answer yes."
        }
        Code::JournalTooLarge => {
            "`kubectl get secrets -n fairlead-delivery` lists the Secrets `release-BUNDLE` and their parts. Large generated ConfigMaps are a frequent cause."
        }
        Code::JournalDamaged => {
            "`kubectl get secret release-BUNDLE -n fairlead-delivery -o yaml` shows the parts of the journal. A change by hand is a frequent cause."
        }
        Code::RunFenced => {
            "`kubectl get secret run-BUNDLE -n fairlead-delivery -o yaml` shows finalizers and the time of deletion."
        }
        Code::OldGeneration => {
            "The cause has both generations. The hub's log shows at its start which data directory or database it uses."
        }
        _ => MISSING,
    }
}
