//! Bindings that an agent with a kubeconfig creates.

use std::fs;

use fairlead_agent::Config;
use fairlead_apiserver::ApiServerConfig;

use crate::rig::{Rig, until};

const IN_CLUSTER: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const IN_SHOP: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";

/// Configuration of an agent outside of the cluster.
fn outside(rig: &Rig) -> Config {
    let path = rig.dir.path().join("kubeconfig");
    let ca = rig.dir.path().join("account").join("ca.crt");
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: '{}'}}}}], \
         users: [{{name: u, user: {{token: x}}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         current-context: c}}",
        rig.api.port(),
        ca.display()
    );
    fs::write(&path, text).unwrap();
    Config {
        target: ApiServerConfig::Kubeconfig {
            path,
            context: None,
        },
        ..rig.config()
    }
}

#[tokio::test]
async fn namespace_added_after_the_enrolment_is_bound_and_the_cluster_is_not_again() {
    let rig = Rig::new().await;
    let mut config = outside(&rig);
    let first = rig.start(config.clone());
    rig.hub.next().await;
    assert!(rig.api.saw(IN_CLUSTER) && !rig.api.saw(IN_SHOP));
    drop(first);

    rig.api.script.received.lock().unwrap().clear();
    config.operator_namespaces = vec!["shop".parse().unwrap()];
    let _second = rig.start(config);
    rig.hub.next().await;
    until(|| rig.api.saw(IN_SHOP)).await;
    assert!(!rig.api.saw(IN_CLUSTER));
}
