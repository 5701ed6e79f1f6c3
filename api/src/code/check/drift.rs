//! Drift, and Secrets as inputs of deliveries.

use super::{Code, MISSING};

/// Drift and Secrets in a cluster.
pub(super) const fn in_cluster(code: Code) -> &'static str {
    match code {
        Code::DriftFound => {
            "`kubectl get KIND NAME -n NAMESPACE -o yaml --show-managed-fields` lists fields, managers and times. The cause names field and manager."
        }
        Code::DriftFight => {
            "The cause names managers and fields. `kubectl get KIND NAME -n NAMESPACE -o yaml --show-managed-fields -w` shows both writers in turn."
        }
        Code::DriftTakenOver => {
            "Read the label `fairlead/bundle` of the object: `kubectl get KIND NAME -n NAMESPACE --show-labels`. A bundle with `adopt: true` takes objects over."
        }
        Code::DriftRefused => {
            "The cause quotes the API server. `kubectl apply --server-side --force-conflicts --dry-run=server -f FILE` gives the same answer."
        }
        Code::SecretMissing => {
            "`kubectl get secret NAME -n NAMESPACE -o yaml` lists the keys. The cause names Secret and key."
        }
        Code::SecretForbidden => {
            "`kubectl auth can-i get secret/NAME -n NAMESPACE --as USER` answers no. The cause names the user and the missing rule."
        }
        Code::SecretMisused => {
            "The cause names object and variable. Search the files of the bundle for the variable."
        }
        Code::SecretUnusable => {
            "`kubectl get secret NAME -n NAMESPACE -o yaml` has the value in base64. Decode it, and look at its size and characters."
        }
        Code::DiffRefused => {
            "The log of the run has the answer of the API server for each object. `kubectl diff --server-side -f FILE` repeats the request."
        }
        _ => MISSING,
    }
}
