use std::collections::BTreeSet;

use fairlead_api::gitops::ToolInstallation;

use super::*;
use crate::keys::tests::{OPENPGP, SSH, verification};

const URL: &str = "ssh://git@git.example:2222/t-acme/c-demo.git";

fn desired(tool: GitOpsTool) -> DesiredTool {
    DesiredTool {
        tool,
        adopt: false,
        installation: ToolInstallation::default(),
        verify: None,
    }
}

fn rendered(desired: &DesiredTool, with_controllers: bool) -> Vec<Value> {
    let manifest = ToolManifest::embedded(desired.tool).unwrap();
    let installation = Installation {
        desired,
        url: URL,
        with_controllers,
    };
    render(&installation, &manifest).unwrap()
}

fn find<'a>(objects: &'a [Value], wanted: &str, called: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|it| kind(it) == wanted && name(it) == called);
    let object = found
        .next()
        .unwrap_or_else(|| panic!("no {wanted} {called}"));
    assert!(found.next().is_none(), "two of {wanted} {called}");
    object
}

fn names(objects: &[Value], wanted: &str) -> BTreeSet<String> {
    let objects = objects.iter().filter(|it| kind(it) == wanted);
    objects.map(|it| name(it).to_owned()).collect()
}

#[test]
fn flux_has_three_controllers_and_the_source_of_the_catalog() {
    let objects = rendered(&desired(GitOpsTool::Flux), true);
    let deployments = [
        "helm-controller",
        "kustomize-controller",
        "source-controller",
    ];
    assert_eq!(
        names(&objects, "Deployment"),
        deployments.map(str::to_owned).into()
    );
    let text = serde_json::to_string(&objects).unwrap();
    assert!(
        !text.contains("notification-controller"),
        "nothing refers to it"
    );
    let source = find(&objects, "GitRepository", "flux-system");
    assert_eq!(source["spec"]["url"], URL);
    assert_eq!(source["spec"]["secretRef"]["name"], "flux-system");
    assert_eq!(source["spec"]["verify"], Value::Null);
    let namespace = find(&objects, "Namespace", "flux-system");
    assert_eq!(namespace["metadata"]["labels"][POD_SECURITY], "restricted");
    assert_eq!(names(&objects, "NetworkPolicy").len(), 2);
    let binding = find(&objects, "ClusterRoleBinding", "crd-controller-flux-system");
    assert_eq!(binding["subjects"].as_array().unwrap().len(), 3);
}

#[test]
fn end_of_flux_deletes_no_object_of_the_catalog() {
    let flux = desired(GitOpsTool::Flux);
    let policy = |objects: &[Value]| {
        let catalog = find(objects, "Kustomization", "flux-system");
        catalog["spec"]["deletionPolicy"].clone()
    };
    assert_eq!(policy(&rendered(&flux, true)), "Orphan");
    // The definition of an adopted Flux is that of others.
    assert_eq!(policy(&rendered(&flux, false)), Value::Null);

    let mut earlier = ToolManifest::embedded(GitOpsTool::Flux).unwrap();
    for object in &mut earlier.objects {
        let versions = object.pointer_mut("/spec/versions");
        let versions = versions.and_then(Value::as_array_mut);
        for version in versions.into_iter().flatten() {
            let spec = "/schema/openAPIV3Schema/properties/spec/properties";
            if let Some(Value::Object(fields)) = version.pointer_mut(spec) {
                fields.remove("deletionPolicy");
            }
        }
    }
    let installation = Installation {
        desired: &flux,
        url: URL,
        with_controllers: true,
    };
    let objects = render(&installation, &earlier).unwrap();
    assert_eq!(policy(&objects), Value::Null, "it would be refused");
}

#[test]
fn argocd_has_no_user_interface_and_no_administrator() {
    let objects = rendered(&desired(GitOpsTool::Argocd), true);
    let workloads = [
        names(&objects, "Deployment"),
        names(&objects, "StatefulSet"),
    ]
    .concat_sets();
    let expected = [
        "argocd-application-controller",
        "argocd-redis",
        "argocd-repo-server",
    ];
    assert_eq!(workloads, expected.map(str::to_owned).into());
    let settings = find(&objects, "ConfigMap", "argocd-cm");
    assert_eq!(settings["data"]["admin.enabled"], "false");
    let hosts = find(&objects, "ConfigMap", "argocd-ssh-known-hosts-cm");
    assert_eq!(
        hosts["data"],
        Value::Null,
        "hosts of others are not trusted"
    );
    let project = find(&objects, "AppProject", "fairlead-catalog");
    assert_eq!(project["spec"]["sourceRepos"], json!([URL]));
    let default = find(&objects, "AppProject", "default");
    assert_eq!(default["spec"]["sourceRepos"], json!([]));
    let application = find(&objects, "Application", "fairlead-catalog");
    assert_eq!(application["spec"]["project"], "fairlead-catalog");
    for object in &objects {
        let is_placed = text(object, "/metadata/namespace") == "argocd";
        assert_ne!(is_placed, crate::objects::is_of_cluster(object), "{object}");
    }
}

trait ConcatSets {
    fn concat_sets(self) -> BTreeSet<String>;
}

impl ConcatSets for [BTreeSet<String>; 2] {
    fn concat_sets(self) -> BTreeSet<String> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn commits_are_verified_with_the_keys_of_the_registry() {
    let mut flux = desired(GitOpsTool::Flux);
    flux.verify = Some(verification(&[("a", OPENPGP), ("b", SSH)]));
    let objects = rendered(&flux, true);
    let verify = &find(&objects, "GitRepository", "flux-system")["spec"]["verify"];
    assert_eq!(verify["mode"], "HEAD");
    let keys = find(
        &objects,
        "Secret",
        verify["secretRef"]["name"].as_str().unwrap(),
    );
    let fields: Vec<&String> = keys["data"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["a.asc", "b.sshpub"]);

    let mut argocd = desired(GitOpsTool::Argocd);
    argocd.verify = Some(verification(&[("a", OPENPGP)]));
    let objects = rendered(&argocd, true);
    let project = find(&objects, "AppProject", "fairlead-catalog");
    let id = project["spec"]["signatureKeys"][0]["keyID"]
        .as_str()
        .unwrap();
    let keys = find(&objects, "ConfigMap", "argocd-gpg-keys-cm");
    assert_eq!(keys["data"][id], OPENPGP);

    argocd.verify = Some(verification(&[("b", SSH)]));
    let manifest = ToolManifest::embedded(GitOpsTool::Argocd).unwrap();
    let installation = Installation {
        desired: &argocd,
        url: URL,
        with_controllers: true,
    };
    let refused = render(&installation, &manifest);
    assert_eq!(refused, Err(KeyProblem::Ssh("b".to_owned()).into()));
}

#[test]
fn adopted_tool_gets_its_catalog_only() {
    let adopted = rendered(&desired(GitOpsTool::Flux), false);
    let kinds: Vec<&str> = adopted.iter().map(kind).collect();
    assert_eq!(kinds, ["GitRepository", "Kustomization"]);
    let adopted = rendered(&desired(GitOpsTool::Argocd), false);
    let kinds: Vec<&str> = adopted.iter().map(kind).collect();
    assert_eq!(kinds, ["AppProject", "Application"]);
}

#[test]
fn site_has_mirror_authorities_and_a_name_for_the_git_server() {
    let mut flux = desired(GitOpsTool::Flux);
    flux.installation = ToolInstallation {
        registry: Some("mirror.example:5000/x".to_owned()),
        ca: Some("PEM".to_owned()),
        git_service: Some(true),
        branch: Some("live".to_owned()),
        path: Some("/clusters/demo/".to_owned()),
        ..ToolInstallation::default()
    };
    let objects = rendered(&flux, true);
    for object in objects.iter().filter(|it| kind(it) == "Deployment") {
        let image = text(object, "/spec/template/spec/containers/0/image");
        assert!(
            image.starts_with("mirror.example:5000/x/fluxcd/"),
            "{image}"
        );
    }
    let service = find(&objects, "Service", GIT_SERVICE);
    assert_eq!(service["spec"]["externalName"], "git.example");
    assert_eq!(find(&objects, "ConfigMap", CA_MAP)["data"]["ca.crt"], "PEM");
    let source = find(&objects, "GitRepository", "flux-system");
    assert_eq!(source["spec"]["ref"]["branch"], "live");
    let catalog = find(&objects, "Kustomization", "flux-system");
    assert_eq!(catalog["spec"]["path"], "./clusters/demo");
}
