//! `openshiftVersion` (`Major`, `Minor`, `Patch`): last completed update of the cluster. `openshiftOAuthRoute`:
//! host for logins.

use serde::Deserialize;
use serde_json::json;

use crate::facts::{
    bounded::short,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

const VERSION_PATH: &str = "/apis/config.openshift.io/v1/clusterversions/version";
const ROUTE_PATH: &str =
    "/apis/route.openshift.io/v1/namespaces/openshift-authentication/routes/oauth-openshift";

#[derive(Default)]
pub(super) struct OpenShift {
    version: Option<String>,
    host: Option<String>,
}

#[derive(Deserialize)]
struct ClusterVersion {
    #[serde(default)]
    status: ClusterVersionStatus,
}

#[derive(Deserialize, Default)]
struct ClusterVersionStatus {
    /// Updates, newest first.
    #[serde(default)]
    history: Vec<Update>,
}

#[derive(Deserialize)]
struct Update {
    state: String,
    version: String,
}

#[derive(Deserialize)]
struct OpenShiftRoute {
    #[serde(default)]
    spec: OpenShiftRouteSpec,
}

#[derive(Deserialize, Default)]
struct OpenShiftRouteSpec {
    #[serde(default)]
    host: Option<String>,
}

impl Collector for OpenShift {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![
            CollectorSource::object(
                VERSION_PATH,
                "get clusterversions.config.openshift.io/version",
            ),
            CollectorSource::object(
                ROUTE_PATH,
                "get routes.route.openshift.io/oauth-openshift in openshift-authentication",
            ),
        ]
    }

    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        if source == 0 {
            let version: ClusterVersion = serde_json::from_slice(object)?;
            let mut history = version.status.history.into_iter();
            let completed = history.find(|update| update.state == "Completed");
            self.version = completed.map(|update| update.version);
        } else {
            let route: OpenShiftRoute = serde_json::from_slice(object)?;
            self.host = route.spec.host;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let version = self.version.map(|version| {
            // The patch includes its suffix, as in 4.8.0-rc.1.
            let mut parts = version.splitn(3, '.').map(short);
            let mut next = || parts.next().unwrap_or_default();
            let value = json!({ "Major": next(), "Minor": next(), "Patch": next() });
            CollectedFact::whole("openshiftVersion", value)
        });
        let host = self
            .host
            .map(|host| CollectedFact::whole("openshiftOAuthRoute", short(&host)));
        version.into_iter().chain(host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn version_is_the_last_completed_update() {
        let version = json!({ "status": { "history": [
            { "state": "Partial", "version": "4.9.1" },
            { "state": "Completed", "version": "4.8.27" },
            { "state": "Completed", "version": "4.7.0" },
        ] } });
        let route = json!({ "spec": { "host": "oauth.apps.example.com" } });
        assert_eq!(
            facts_of(Box::new(OpenShift::default()), &[(0, version), (1, route)]),
            json!({
                "openshiftVersion": { "Major": "4", "Minor": "8", "Patch": "27" },
                "openshiftOAuthRoute": "oauth.apps.example.com",
            })
        );
    }

    #[test]
    fn no_fact_without_openshift() {
        assert_eq!(facts_of(Box::new(OpenShift::default()), &[]), json!({}));
        let empty = [(0, json!({ "status": {} })), (1, json!({}))];
        assert_eq!(facts_of(Box::new(OpenShift::default()), &empty), json!({}));
    }
}
