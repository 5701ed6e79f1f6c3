//! The table of edits.

mod actions;

use std::{future::Future, pin::Pin, time::Duration};

use fairlead_api::delivery::DriftPolicy;
use fairlead_delivery_agent::kube::Propagation;
use serde_json::{Value, json};
use tokio::time::sleep;

use actions::{apply, container, edited, json_patch, merge, pod, put};

use crate::{
    objects::{
        autoscaled, config_map, deployment, ingress, network_policy, role, secret, service, webhook,
    },
    world::{Case, World},
};

/// Answer to an edit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// Reported as these fields with their managers, and corrected.
    Corrected(&'static [&'static str]),
    /// Only the ownership is taken back.
    TakenBack,
    /// Nothing is reported or written.
    Silent,
}

type Editing<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;

/// One edit.
pub(crate) struct Edit {
    pub(crate) name: &'static str,
    pub(crate) object: fn() -> Value,
    pub(crate) edit: for<'a> fn(&'a World, &'a Case) -> Editing<'a>,
    pub(crate) expected: Expected,
    /// Field with its JSON after all.
    pub(crate) kept: Option<(&'static str, &'static str)>,
    pub(crate) ignored: &'static [&'static str],
    pub(crate) is_autoscaled: bool,
}

macro_rules! edit {
    ($name:literal, $object:expr, $expected:expr, |$world:ident, $case:ident| $edit:expr $(, $field:ident: $value:expr)*) => {
        Edit {
            name: $name,
            object: $object,
            edit: |$world, $case| Box::pin(async move { $edit }),
            expected: $expected,
            $($field: $value,)*
            ..DEFAULT
        }
    };
}

const DEFAULT: Edit = Edit {
    name: "",
    object: config_map,
    edit: |_, _| Box::pin(async { Ok(()) }),
    expected: Expected::Silent,
    kept: None,
    ignored: &[],
    is_autoscaled: false,
};

use Expected::{Corrected, Silent, TakenBack};

pub(crate) const EDITS: &[Edit] = &[
    edit!(
        "kubectl edit",
        config_map,
        Corrected(&[".data.a kubectl-edit"]),
        |w, c| edited(w, c, "/^..a:/s/1/9/").await
    ),
    edit!(
        "key removed",
        config_map,
        Corrected(&[".data.a nobody"]),
        |w, c| merge(w, c, json!({"data": {"a": null}})).await
    ),
    edit!(
        "all data removed",
        config_map,
        Corrected(&[".data nobody"]),
        |w, c| merge(w, c, json!({"data": null})).await
    ),
    edit!("key added", config_map, Silent, |w, c| merge(w, c, json!({"data": {"c": "3"}})).await, kept: Some(("/data/c", "\"3\""))),
    edit!(
        "PUT with another value",
        config_map,
        Corrected(&[".data.a kubectl-replace"]),
        |w, c| put(w, c, |it| it["data"]["a"] = json!("9")).await
    ),
    edit!("PUT without change", config_map, Silent, |w, c| put(
        w,
        c,
        |_| {}
    )
    .await),
    edit!(
        "JSON patch",
        config_map,
        Corrected(&[".data.a kubectl-patch"]),
        |w, c| json_patch(
            w,
            c,
            json!([{"op": "replace", "path": "/data/a", "value": "9"}])
        )
        .await
    ),
    edit!("managedFields stripped", config_map, TakenBack, |w, c| {
        json_patch(
            w,
            c,
            json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]),
        )
        .await
    }),
    edit!(
        "forced apply by others",
        config_map,
        Corrected(&[".data.a argocd"]),
        |w, c| apply(w, c, "argocd", |it| it["data"]["a"] = json!("9")).await
    ),
    edit!("co-owner with equal values", config_map, Silent, |w, c| {
        apply(w, c, "argocd", |_| {}).await
    }),
    edit!(
        "client-side apply",
        config_map,
        Corrected(&[".data.a kubectl-client-side-apply"]),
        |w, c| {
            let mut object = c.manifest.clone();
            object["data"]["a"] = json!("9");
            w.kubectl_with(c, &["apply", "-f", "-"], &object).await
        }
    ),
    edit!(
        "apply under our name",
        config_map,
        Corrected(&[".data.a fairlead/b-e11"]),
        |w, c| apply(w, c, &c.manager(), |it| it["data"]["a"] = json!("9")).await
    ),
    edit!(
        "update under our name",
        config_map,
        Corrected(&[".data.a fairlead/b-e12"]),
        |w, c| {
            let manager = format!("--field-manager={}", c.manager());
            w.kubectl(
                c,
                &[
                    "patch",
                    "configmap",
                    "web",
                    &manager,
                    "--type=merge",
                    "-p",
                    r#"{"data":{"a":"9"}}"#,
                ],
            )
            .await
        }
    ),
    edit!("changed and back", config_map, TakenBack, |w, c| {
        // A comparison in between would find drift.
        w.monitor.release(&c.bundle).await;
        for value in ["9", "1"] {
            let patch = json!({"data": {"a": value}});
            w.client.merge_patch(&c.path, &patch).await?;
        }
        w.follow(c, DriftPolicy::Correct).await;
        Ok(())
    }),
    edit!(
        "label changed",
        config_map,
        Corrected(&[".metadata.labels.app kubectl-label"]),
        |w, c| w
            .kubectl(c, &["label", "configmap", "web", "--overwrite", "app=x"])
            .await
    ),
    edit!("label added", config_map, Silent, |w, c| w.kubectl(c, &["label", "configmap", "web", "x=y"]).await, kept: Some(("/metadata/labels/x", "\"y\""))),
    edit!(
        "bundle label removed",
        config_map,
        Corrected(&[".metadata.labels[\"fairlead/bundle\"] nobody"]),
        |w, c| w
            .kubectl(c, &["label", "configmap", "web", "fairlead/bundle-"])
            .await
    ),
    edit!(
        "bundle label changed",
        config_map,
        Corrected(&[".metadata.labels[\"fairlead/bundle\"] kubectl-label"]),
        |w, c| w
            .kubectl(
                c,
                &[
                    "label",
                    "configmap",
                    "web",
                    "--overwrite",
                    "fairlead/bundle=b-none"
                ]
            )
            .await
    ),
    edit!("annotation added", config_map, Silent, |w, c| w
        .kubectl(c, &["annotate", "configmap", "web", "x=y"])
        .await),
    edit!(
        "generation annotation changed",
        config_map,
        Corrected(&[".metadata.annotations[\"fairlead/generation\"] kubectl-annotate"]),
        |w, c| w
            .kubectl(
                c,
                &[
                    "annotate",
                    "configmap",
                    "web",
                    "--overwrite",
                    "fairlead/generation=9"
                ]
            )
            .await
    ),
    edit!(
        "finalizer and ownerReference",
        config_map,
        Silent,
        |w, c| {
            merge(w, c, json!({"metadata": {"finalizers": ["example.org/x"]}})).await?;
            merge(w, c, json!({"metadata": {"finalizers": null}})).await
        }
    ),
    edit!(
        "deleted",
        config_map,
        Corrected(&["whole nobody"]),
        |w, c| w.kubectl(c, &["delete", "configmap", "web"]).await
    ),
    edit!(
        "deleted under a finalizer",
        config_map,
        Corrected(&["whole nobody"]),
        |w, c| {
            merge(w, c, json!({"metadata": {"finalizers": ["example.org/x"]}})).await?;
            w.kubectl(c, &["delete", "configmap", "web", "--wait=false"])
                .await?;
            sleep(Duration::from_secs(2)).await;
            merge(w, c, json!({"metadata": {"finalizers": null}})).await
        }
    ),
    edit!(
        "made again with equal content",
        config_map,
        TakenBack,
        |w, c| {
            // A comparison in between would miss the object.
            w.monitor.release(&c.bundle).await;
            w.client
                .delete(&c.path, None, Propagation::Background)
                .await?;
            let collection = c.resource.collection_path(Some(&c.namespace));
            w.client.create(&collection, &c.manifest).await?;
            w.follow(c, DriftPolicy::Correct).await;
            Ok(())
        }
    ),
    edit!(
        "Secret's value changed",
        secret,
        Corrected(&[".data.password kubectl-patch"]),
        |w, c| merge(w, c, json!({"stringData": {"password": "x"}})).await
    ),
    edit!("Secret's key added", secret, Silent, |w, c| merge(
        w,
        c,
        json!({"stringData": {"x": "x"}})
    )
    .await),
    edit!(
        "scale",
        deployment,
        Corrected(&[".spec.replicas kubectl"]),
        |w, c| w
            .kubectl(c, &["scale", "deployment", "web", "--replicas=5"])
            .await
    ),
    edit!(
        "replicas left out by PUT",
        deployment,
        Corrected(&[".spec.replicas kubectl-replace"]),
        |w, c| put(w, c, |it| drop(
            it["spec"].as_object_mut().unwrap().remove("replicas")
        ))
        .await
    ),
    edit!(
        "set image",
        deployment,
        Corrected(&[".spec.template.spec.containers[name=web].image kubectl-set"]),
        |w, c| w
            .kubectl(c, &["set", "image", "deployment/web", "web=web:2"])
            .await
    ),
    edit!(
        "set env",
        deployment,
        Corrected(&[".spec.template.spec.containers[name=web].env[name=A].value kubectl-set"]),
        |w, c| w.kubectl(c, &["set", "env", "deployment/web", "A=9"]).await
    ),
    edit!("env added", deployment, Silent, |w, c| w
        .kubectl(c, &["set", "env", "deployment/web", "C=9"])
        .await),
    edit!(
        "env removed",
        deployment,
        Corrected(&[".spec.template.spec.containers[name=web].env[name=B] nobody"]),
        |w, c| w.kubectl(c, &["set", "env", "deployment/web", "B-"]).await
    ),
    edit!(
        "env reordered",
        deployment,
        Corrected(&[".spec.template.spec.containers[name=web].env fairlead/b-e32"]),
        |w, c| put(w, c, |it| {
            it["spec"]["template"]["spec"]["containers"][0]["env"]
                .as_array_mut()
                .unwrap()
                .reverse()
        })
        .await
    ),
    edit!(
        "initContainers reordered",
        deployment,
        Corrected(&[".spec.template.spec.initContainers fairlead/b-e33"]),
        |w, c| put(w, c, |it| it["spec"]["template"]["spec"]["initContainers"]
            .as_array_mut()
            .unwrap()
            .reverse())
        .await
    ),
    edit!(
        "argument added",
        deployment,
        Corrected(&[".spec.template.spec.containers[name=web].args kubectl-patch"]),
        |w, c| container(w, c, json!({"args": ["a", "b"]})).await
    ),
    edit!("command added", deployment, Silent, |w, c| container(
        w,
        c,
        json!({"command": ["x"]})
    )
    .await),
    edit!("limits added", deployment, Silent, |w, c| w
        .kubectl(
            c,
            &["set", "resources", "deployment/web", "--limits=memory=1Gi"]
        )
        .await),
    edit!("port added", deployment, Silent, |w, c| container(
        w,
        c,
        json!({"ports": [{"containerPort": 81}]})
    )
    .await),
    edit!("sidecar added", deployment, Silent, |w, c| pod(
        w,
        c,
        json!({"containers": [{"name": "proxy", "image": "p"}]})
    )
    .await),
    edit!("host network", deployment, Silent, |w, c| pod(
        w,
        c,
        json!({"hostNetwork": true})
    )
    .await),
    edit!(
        "toleration added",
        deployment,
        Corrected(&[".spec.template.spec.tolerations kubectl-patch"]),
        |w, c| pod(w, c, json!({"tolerations": [{"key": "a"}, {"key": "b"}]})).await
    ),
    edit!(
        "nodeSelector extended",
        deployment,
        Corrected(&[".spec.template.spec.nodeSelector kubectl-patch"]),
        |w, c| pod(w, c, json!({"nodeSelector": {"zone": "a"}})).await
    ),
    edit!(
        "nodeSelector removed",
        deployment,
        Corrected(&[".spec.template.spec.nodeSelector nobody"]),
        |w, c| pod(w, c, json!({"nodeSelector": null})).await
    ),
    edit!("rollout restart", deployment, Silent, |w, c| {
        merge(w, c, json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}})).await
    }),
    edit!(
        "volume of another type",
        deployment,
        Corrected(&[
            ".spec.template.spec.containers[0].volumeMounts[0].name kubectl-patch",
            ".spec.template.spec.volumes[0].hostPath kubectl-patch"
        ]),
        |w, c| pod(
            w,
            c,
            json!({"volumes": [{"name": "data", "emptyDir": null, "hostPath": {"path": "/data"}}]})
        )
        .await
    ),
    edit!("quantity and defaults", deployment, Silent, |_w, _c| Ok(())),
    edit!("autoscaler with replicas of ours", deployment, Silent, |w, c| {
        w.kubectl(c, &["autoscale", "deployment", "web", "--min=3", "--max=9"]).await?;
        w.kubectl(c, &["scale", "deployment", "web", "--replicas=3"]).await
    }, is_autoscaled: true, kept: Some(("/spec/replicas", "3"))),
    edit!("scale with replicas of others", autoscaled, Silent, |w, c| w.kubectl(c, &["scale", "deployment", "web", "--replicas=5"]).await, kept: Some(("/spec/replicas", "5"))),
    edit!("ignored field, and another one", deployment, Corrected(&[".spec.template.spec.containers[name=web].image kubectl-set"]), |w, c| {
        w.kubectl(c, &["scale", "deployment", "web", "--replicas=5"]).await?;
        w.kubectl(c, &["set", "image", "deployment/web", "web=web:2"]).await
    }, ignored: &["/spec/replicas"], kept: Some(("/spec/replicas", "5"))),
    edit!("Service's port changed", service, Corrected(&[".spec.ports[1].name kubectl-replace"]), |w, c| put(w, c, |it| {
        it["spec"]["ports"][0]["port"] = json!(8080);
        it["spec"]["ports"][0].as_object_mut().unwrap().remove("targetPort");
    }).await, kept: Some(("/spec/ports/0/port", "80"))),
    edit!(
        "Service's selector extended",
        service,
        Corrected(&[".spec.selector kubectl-patch"]),
        |w, c| merge(w, c, json!({"spec": {"selector": {"x": "y"}}})).await
    ),
    edit!("Service's port added", service, Silent, |w, c| w
        .kubectl(
            c,
            &[
                "patch",
                "service",
                "web",
                "-p",
                r#"{"spec":{"ports":[{"name":"more","port":81}]}}"#
            ]
        )
        .await),
    edit!(
        "Role's verb added",
        role,
        Corrected(&[".rules kubectl-patch"]),
        |w, c| json_patch(
            w,
            c,
            json!([{"op": "add", "path": "/rules/0/verbs/-", "value": "list"}])
        )
        .await
    ),
    edit!(
        "NetworkPolicy's selector extended",
        network_policy,
        Corrected(&[".spec.podSelector kubectl-patch"]),
        |w, c| merge(
            w,
            c,
            json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}})
        )
        .await
    ),
    edit!(
        "Ingress rule added",
        ingress,
        Corrected(&[".spec.rules kubectl-patch"]),
        |w, c| json_patch(
            w,
            c,
            json!([{"op": "add", "path": "/spec/rules/-", "value": {"host": "b.example"}}])
        )
        .await
    ),
    edit!("certificate injected", webhook, Silent, |w, c| {
        let value =
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
        json_patch(
            w,
            c,
            json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}]),
        )
        .await
    }),
];
