//! Tests of the install manifest.

use fairlead_api::site::{DeliveryRights, ImpersonationMode};

use super::*;

fn input() -> ManifestInput {
    ManifestInput {
        start: AgentStart::Join {
            cluster: "c-demo".parse().unwrap(),
            join: "fl1.c2VjcmV0".into(),
        },
        tenant: "t-acme".parse().unwrap(),
        choices: SiteChoices::default(),
        gitops: GitOpsTool::None,
        adopt: false,
        tool_exists: false,
        installer: None,
        site: SiteSettings::default(),
        image: "registry.example/fairlead:0.1.0".to_owned(),
        version: "0.1.0".to_owned(),
    }
}

fn parsed() -> Vec<Value> {
    serde_saphyr::from_multiple(&manifest(&input()).unwrap()).unwrap()
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "two of {kind} {name}");
    object
}

#[test]
fn written_manifests_parse_back() {
    assert_eq!(parsed(), objects(&input()));
}

#[test]
fn the_agent_gets_minimal_permissions() {
    let objects = parsed();
    let role = find(&objects, "ClusterRole", AGENT_NAME);
    let rules = role["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 3);
    for rule in &rules[..2] {
        assert_eq!(rule["verbs"], json!(["impersonate"]));
    }
    assert_eq!(
        (&rules[2]["verbs"], &rules[2]["resourceNames"]),
        (&json!(["get"]), &json!(["kube-system"]))
    );
    assert_eq!(
        rules[0]["resourceNames"],
        json!([
            "fairlead:admin",
            "fairlead:operator",
            "fairlead:viewer",
            "fairlead:tenant:t-acme:admin",
            "fairlead:tenant:t-acme:operator",
            "fairlead:tenant:t-acme:viewer",
        ])
    );
    let role = find(&objects, "Role", AGENT_NAME);
    assert_eq!(role["metadata"]["namespace"], "fairlead");
    assert_eq!(
        role["rules"][0]["resourceNames"],
        json!(["fairlead-identity"])
    );
    assert_eq!(role["rules"][1]["verbs"], json!(["create"]));
    assert_eq!(
        role["rules"][2]["resourceNames"],
        json!(["additional-facts"])
    );
    assert_eq!(role["rules"][3]["resources"], json!(["events"]));
    assert_eq!(role["rules"][3]["verbs"], json!(["create"]));
    assert_eq!(role["rules"][4]["resourceNames"], json!([AGENT_NAME]));
    assert_eq!(role["rules"][4]["verbs"], json!(["get", "patch"]));
    assert_eq!(role["rules"][5]["verbs"], json!(["list"]));
    let facts = find(&objects, "ClusterRole", FACTS_ROLE)["rules"]
        .as_array()
        .unwrap();
    for rule in facts {
        let all = rule["verbs"] == json!(["list"]);
        let one = rule["verbs"] == json!(["get"]) && rule["resourceNames"].is_array();
        assert!(all || one, "{rule}");
        assert!(!rule.to_string().contains("secrets"), "{rule}");
    }
    let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole");
    assert_eq!(roles.count(), 4);
    let mut bindings = objects.iter().filter(|o| o["kind"] == "ClusterRoleBinding");
    assert!(
        bindings.all(|o| o["roleRef"]["name"] != HELM_FACTS_ROLE),
        "listing Secrets requires a binding by the site operator"
    );
    for object in objects.iter().filter(|o| !o["rules"].is_null()) {
        let text = object.to_string();
        assert!(!text.contains("\"*\""), "{text}");
    }
}

#[test]
fn roles_are_bound_as_documented() {
    let objects = parsed();
    for (role, bound) in [
        ("admin", "cluster-admin"),
        ("operator", "view"),
        ("viewer", "view"),
    ] {
        let binding = find(&objects, "ClusterRoleBinding", &format!("fairlead-{role}"));
        assert_eq!(binding["roleRef"]["name"], bound);
        assert_eq!(binding["subjects"][0]["name"], format!("fairlead:{role}"));
    }
    let writes = objects.iter().filter(|o| o["roleRef"]["name"] == "edit");
    assert_eq!(writes.count(), 0, "operators write nowhere by default");
}

#[test]
fn operators_write_in_the_chosen_namespaces_only() {
    let mut input = input();
    let chosen = ["shop", "web"].map(|name| name.parse().unwrap());
    input.choices.operator_namespaces = chosen.to_vec();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest(&input).unwrap()).unwrap();
    let bindings = objects.iter().filter(|o| o["roleRef"]["name"] == "edit");
    let bindings: Vec<&Value> = bindings.collect();
    assert_eq!(bindings.len(), 2);
    for (binding, namespace) in bindings.into_iter().zip(["shop", "web"]) {
        assert_eq!(binding["kind"], "RoleBinding");
        assert_eq!(binding["metadata"]["namespace"], namespace);
        assert_eq!(binding["subjects"][0]["name"], "fairlead:operator");
        let own = format!("fairlead:namespace:{namespace}:operator");
        assert_eq!(binding["subjects"][1]["name"], own);
    }
    // The agent may impersonate exactly the groups of these namespaces.
    for mode in [ImpersonationMode::Plain, ImpersonationMode::Constrained] {
        input.choices.impersonation = mode;
        let objects = self::objects(&input);
        let role = find(&objects, "ClusterRole", AGENT_NAME);
        let groups = role["rules"][0]["resourceNames"].as_array().unwrap();
        let of_namespaces = groups.iter().filter_map(Value::as_str);
        let of_namespaces = of_namespaces.filter(|it| it.starts_with("fairlead:namespace:"));
        assert_eq!(
            of_namespaces.collect::<Vec<_>>(),
            [
                "fairlead:namespace:shop:operator",
                "fairlead:namespace:shop:viewer",
                "fairlead:namespace:web:operator",
                "fairlead:namespace:web:viewer",
            ]
        );
    }
    let variables = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"]["containers"]
        [0]["env"];
    let variable = variables.as_array().unwrap().iter();
    let mut variable = variable.filter(|it| it["name"] == "FAIRLEAD_OPERATOR_NAMESPACES");
    assert_eq!(variable.next().unwrap()["value"], "shop,web");
}

#[test]
fn constrained_impersonation_has_no_unconstrained_verb() {
    let mut input = input();
    input.choices.impersonation = ImpersonationMode::Constrained;
    let objects = objects(&input);
    let role = find(&objects, "ClusterRole", AGENT_NAME)["rules"].to_string();
    assert!(!role.contains("\"impersonate\""), "{role}");
    assert!(role.contains("\"impersonate-on:user-info:list\""), "{role}");
    assert!(
        !role.contains("serviceaccount") && !role.contains("node"),
        "{role}"
    );
}

#[test]
fn the_namespace_has_a_guard_and_a_network_policy() {
    let objects = parsed();
    let policy = find(&objects, "ValidatingAdmissionPolicy", "fairlead-namespace");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    let binding = find(
        &objects,
        "ValidatingAdmissionPolicyBinding",
        "fairlead-namespace",
    );
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    let network = find(&objects, "NetworkPolicy", AGENT_NAME);
    assert_eq!(
        network["spec"]["ingress"][0]["ports"][0]["port"],
        ADMIN_PORT
    );
}

#[test]
fn the_pod_passes_the_restricted_standard() {
    let objects = parsed();
    let pod = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.example/fairlead:0.1.0");
    assert_eq!(container["args"], json!(["agent"]));
    let context = &container["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    let secret = find(&objects, "Secret", JOIN_SECRET);
    assert_eq!(secret["stringData"]["join"], "fl1.c2VjcmV0");
    assert!(
        !container.to_string().contains("c2VjcmV0"),
        "only the Secret contains the token"
    );
}

#[test]
fn the_pod_is_ready_with_a_session_only_and_alive_without_one() {
    let objects = parsed();
    let deployment = &find(&objects, "Deployment", AGENT_NAME)["spec"];
    let container = &deployment["template"]["spec"]["containers"][0];
    let path = |probe: &str| container[probe]["httpGet"]["path"].clone();
    assert_eq!(path("readinessProbe"), "/readyz");
    assert_eq!(path("livenessProbe"), "/healthz");
    let rolling = &deployment["strategy"]["rollingUpdate"];
    assert_eq!(
        rolling["maxUnavailable"], 0,
        "the old pod serves until the new one is ready"
    );
}

#[test]
fn strings_that_look_like_other_types_stay_strings() {
    let mut ambiguous = input();
    ambiguous.version = "1.10".to_owned();
    ambiguous.image = "yes: #no\n---\n".to_owned();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest(&ambiguous).unwrap()).unwrap();
    let template = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["fairlead/version"],
        "1.10"
    );
    assert_eq!(template["spec"]["containers"][0]["image"], ambiguous.image);
}

#[test]
fn deliveries_act_as_an_account_of_their_own() {
    let objects = parsed();
    let binding = find(&objects, "ClusterRoleBinding", "fairlead-deployer");
    assert_eq!(binding["roleRef"]["name"], "cluster-admin");
    assert_eq!(binding["subjects"][0]["name"], "deployer");
    let role = find(&objects, "Role", "fairlead-delivery");
    assert_eq!(role["metadata"]["namespace"], "fairlead-delivery");
    let slots = &find(&objects, "ClusterRole", "fairlead-deliverer")["rules"][1];
    assert_eq!(slots["resourceNames"].as_array().unwrap().len(), 4);
    let policy = find(&objects, "ValidatingAdmissionPolicy", "fairlead-delivery");
    let rule = policy["spec"]["validations"][0]["expression"].as_str();
    assert_eq!(
        rule,
        Some("object.type in ['fairlead/run', 'fairlead/release', 'fairlead/gitops']")
    );
}

#[test]
fn runner_has_no_token_and_a_memory_limit_of_its_own() {
    let objects = parsed();
    let pod = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    let [agent, runner] = &pod["containers"].as_array().unwrap()[..] else {
        panic!("two containers");
    };
    assert_eq!(runner["args"][0], "runner");
    assert_eq!(runner["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(runner["securityContext"]["readOnlyRootFilesystem"], true);
    let has_token = |container: &Value| container["volumeMounts"].to_string().contains("\"token\"");
    assert!(has_token(agent) && !has_token(runner));
    assert!(runner["env"].is_null(), "no Secret in its environment");
}

#[test]
fn without_deliveries_there_is_no_runner_and_no_right() {
    let mut input = input();
    input.choices.delivery = DeliveryRights::None;
    let objects = objects(&input);
    let pod = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    assert!(pod["automountServiceAccountToken"].is_null());
    for object in &objects {
        let text = object.to_string();
        assert!(
            !text.contains("fairlead-delivery") && !text.contains("deployer"),
            "{text}"
        );
    }
}

#[test]
fn rights_for_the_gitops_tool_name_their_objects() {
    assert!(!manifest(&input()).unwrap().contains("fairlead-gitops"));
    for (tool, namespace) in [
        (GitOpsTool::Flux, "flux-system"),
        (GitOpsTool::Argocd, "argocd"),
    ] {
        rights_of_tool(tool, namespace);
    }
}

fn rights_of_tool(tool: GitOpsTool, namespace: &str) {
    let mut with_tool = input();
    with_tool.gitops = tool;
    with_tool.choices.delivery = DeliveryRights::None;
    let objects = objects(&with_tool);
    let role = find(&objects, "Role", "fairlead-gitops");
    assert_eq!(role["metadata"]["namespace"], namespace);
    for rule in role["rules"].as_array().unwrap() {
        let is_named = rule["resourceNames"]
            .as_array()
            .is_some_and(|it| it.len() == 1);
        let is_harmless = rule["verbs"] == json!(["create"]) || rule["verbs"] == json!(["list"]);
        assert!(is_named || is_harmless, "{rule}");
    }
    // An existing namespace keeps its labels, also under `kubectl apply`.
    let namespace_of = |objects: &[Value]| {
        let mut found = objects.iter().filter(|it| it["kind"] == "Namespace");
        found
            .find(|it| it["metadata"]["name"] == namespace)
            .cloned()
    };
    let metadata = namespace_of(&objects).unwrap()["metadata"].clone();
    assert!(metadata.get("labels").is_none(), "{metadata}");
    assert_eq!(metadata["annotations"]["fairlead/manifest"], "fairlead");
    with_tool.tool_exists = true;
    assert_eq!(namespace_of(&super::objects(&with_tool)), None);
    // `create` without a name would allow a Secret with the token of any account there.
    let policy = find(&objects, "ValidatingAdmissionPolicy", "fairlead-delivery");
    let types = policy["spec"]["validations"][0]["expression"]
        .as_str()
        .unwrap();
    assert!(types.contains("'fairlead/gitops'"), "{types}");
    find(
        &objects,
        "ValidatingAdmissionPolicyBinding",
        "fairlead-delivery",
    );
}

#[test]
fn git_proxy_is_reached_by_gitops_tools_alone() {
    let plain = parsed();
    assert!(plain.iter().all(|it| it["kind"] != "Service"));
    let mut with = input();
    with.choices.git_proxy = Some("git.example:22".parse().unwrap());
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifest(&with).unwrap()).unwrap();
    let service = find(&objects, "Service", "fairlead-git-proxy");
    assert_eq!(service["spec"]["ports"][0]["port"], 22);
    let policy = find(&objects, "NetworkPolicy", "fairlead-git-proxy");
    let from = &policy["spec"]["ingress"][0]["from"];
    assert_eq!(from.as_array().unwrap().len(), 1);
    let expressions = &from[0]["namespaceSelector"]["matchExpressions"];
    assert_eq!(expressions[0]["values"], json!(["flux-system", "argocd"]));
    let deployment = find(&objects, "Deployment", AGENT_NAME);
    let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = variables.to_string();
    assert!(
        variables.contains("0.0.0.0:2222=git.example:22"),
        "{variables}"
    );
}

#[test]
fn installer_gets_a_delivery_of_its_own_without_the_account_of_bundles() {
    let mut with_tool = input();
    with_tool.gitops = GitOpsTool::Flux;
    with_tool.choices.delivery = DeliveryRights::None;
    with_tool.installer = Some(InstallerRights {
        cluster: vec![json!({ "verbs": ["bind"] })],
        namespaced: vec![json!({ "verbs": ["get"] })],
    });
    let objects = objects(&with_tool);
    let account = find(&objects, "ServiceAccount", "gitops-installer");
    assert_eq!(account["metadata"]["namespace"], "fairlead-delivery");
    assert_eq!(account["automountServiceAccountToken"], false);
    let role = find(&objects, "Role", "fairlead-gitops-installer");
    assert_eq!(role["metadata"]["namespace"], "flux-system");
    let binding = find(&objects, "ClusterRoleBinding", "fairlead-gitops-installer");
    assert_eq!(binding["subjects"][0]["name"], "gitops-installer");
    let text = json!(objects).to_string();
    assert!(!text.contains("\"deployer\""), "no account for bundles");
    let pod = &find(&objects, "Deployment", AGENT_NAME)["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"].as_array().unwrap().len(),
        2,
        "with the runner"
    );
}
