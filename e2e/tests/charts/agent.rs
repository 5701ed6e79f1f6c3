//! The Helm chart of the agent: its objects beside the hub's manifest, in a real API server, and in a real agent.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Pod, Process, eventually};
use fairlead_testkit::collector::FakeCollector;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{REMOVAL_DEADLINE, dry_run, helm, restricted, text};

const NAMESPACE: &str = "fairlead";
/// Labels and annotation that the chart adds.
const OF_HELM: [&str; 3] = [
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "helm.sh/resource-policy",
];
/// Object of the manifest that Helm makes by `--create-namespace`.
const ONLY_IN_MANIFEST: &str = "Namespace /fairlead";
/// Object of the chart, so that Helm removes the identity.
const ONLY_IN_CHART: &str = "Secret fairlead/fairlead-identity";
/// Kinds of a release, of the agent, and of what controllers make of them.
const KINDS: &str = "ns,deploy,rs,pod,svc,cm,secret,sa,netpol,pdb,lease,role,rolebinding,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding";
/// Longer than the time that kubectl itself gives a rollout.
const ROLLOUT_DEADLINE: Duration = Duration::from_secs(90);
/// Time of an export of spans.
const SPANS_DEADLINE: Duration = Duration::from_secs(30);
const RELEASED: &str = "released";
/// Secret of the site with headers for its collector of traces.
const HEADERS: &str = "collector";
const CREDENTIAL: &str = "Bearer collector";
/// Context of a sampled request.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UID: &str = "5f0c6b0a-2b6f-4f4e-9a53-c00000000001";

/// Choices of a site: settings of the cluster, settings of its agent, and flags of the manifest.
struct Choices {
    name: &'static str,
    settings: &'static [&'static str],
    agent: &'static [&'static str],
    flags: &'static [&'static str],
}

const TABLE: [Choices; 8] = [
    Choices {
        name: "default",
        settings: &[],
        agent: &[],
        flags: &[],
    },
    Choices {
        name: "operators",
        settings: &[],
        agent: &[],
        flags: &["--operator-namespaces", "shop,web"],
    },
    Choices {
        name: "no-delivery",
        settings: &["--site-no-proxy", "10.0.0.0/8"],
        agent: &[],
        flags: &["--delivery", "none", "--impersonation", "constrained"],
    },
    Choices {
        name: "proxy",
        settings: &[
            "--site-proxy",
            "http://proxy.example:3128",
            "--site-no-proxy",
            "10.0.0.0/8,.svc",
            "--site-hubs",
            "https://two.example,https://three.example:8443",
        ],
        agent: &[],
        flags: &["--git-proxy", "git.example:22"],
    },
    Choices {
        name: "proxy-secret",
        settings: &["--site-proxy-secret", "proxy", "--site-ca-file", "ca.pem"],
        agent: &[],
        flags: &["--delivery", "none"],
    },
    Choices {
        name: "flux",
        settings: &["--site-ca-file", "ca.pem"],
        agent: &["--gitops", "flux"],
        flags: &["--delivery", "none"],
    },
    Choices {
        name: "installed-flux",
        settings: &[],
        agent: &["--gitops", "flux", "--gitops-install", "--gitops-adopt"],
        flags: &["--delivery", "none"],
    },
    Choices {
        name: "installed-argocd",
        settings: &[],
        agent: &["--gitops", "argocd", "--gitops-install", "--gitops-adopt"],
        flags: &[
            "--git-proxy",
            "git.example:443",
            "--operator-namespaces",
            "shop",
        ],
    },
];

#[tokio::test]
async fn agent_chart_makes_the_objects_of_the_manifest() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    restricted(cluster, NAMESPACE).await?;
    let hub = Hub::start().await?;
    for choices in &TABLE {
        let values = registered(&hub, choices).await?;
        let manifest = hub.cli(command("manifest", choices)).await?.success()?;
        let expected = by_name(&objects(&manifest)?, false)?;
        let yaml = template(cluster, &["-f", &text(&values), "--set", "replicas=1"]).await?;
        let rendered = objects(&yaml)?;
        let made = by_name(&rendered, true)?;
        for (name, object) in &expected {
            let of_chart = made.get(name);
            ensure!(
                of_chart == Some(object),
                "{}: {name}\nmanifest: {object}\nchart: {}",
                choices.name,
                of_chart.unwrap_or(&Value::Null)
            );
        }
        let more: Vec<&String> = made
            .keys()
            .filter(|it| !expected.contains_key(*it))
            .collect();
        ensure!(
            more.is_empty(),
            "{}: {more:?} of the chart only",
            choices.name
        );
        let lint = ["lint", "--strict", &chart(), "-n", NAMESPACE, "-f"];
        helm(cluster, &[&lint[..], &[&text(&values)]].concat()).await?;
        check(cluster, &rendered).await?;
    }
    Ok(())
}

/// Registers a cluster with these choices, and writes the values of its chart to a file.
async fn registered(hub: &Hub, choices: &Choices) -> anyhow::Result<std::path::PathBuf> {
    let authority = hub.dir().join("ca.pem");
    fs::copy(&hub.ready().ca_file, &authority)?;
    let settings = choices.settings.iter().map(|it| match *it {
        "ca.pem" => text(&authority),
        other => other.to_owned(),
    });
    let create = ["cluster", "create", choices.name].map(str::to_owned);
    let create = create.into_iter().chain(settings);
    hub.cli(create).await?.success()?;
    if !choices.agent.is_empty() {
        let set = ["cluster", "agent", "set", choices.name];
        hub.cli([&set[..], choices.agent].concat())
            .await?
            .success()?;
    }
    let values = hub.dir().join(format!("{}.yaml", choices.name));
    let printed = hub.cli(command("values", choices)).await?.success()?;
    fs::write(&values, printed)?;
    Ok(values)
}

fn command<'a>(name: &'a str, choices: &Choices) -> Vec<&'a str> {
    [&["cluster", name, choices.name][..], choices.flags].concat()
}

/// Objects without the parts that Helm adds, by kind, namespace and name.
fn by_name(objects: &[Value], is_chart: bool) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for object in objects {
        let mut object = object.clone();
        let field = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (kind, namespace) = (field("/kind"), field("/metadata/namespace"));
        let name = format!("{kind} {namespace}/{}", field("/metadata/name"));
        let only = if is_chart {
            ONLY_IN_CHART
        } else {
            ONLY_IN_MANIFEST
        };
        if name == only {
            continue;
        }
        if is_chart {
            without_parts_of_helm(&mut object["metadata"]);
        }
        ensure!(
            found.insert(name.clone(), object).is_none(),
            "two of {name}"
        );
    }
    Ok(found)
}

fn without_parts_of_helm(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        let Some(Value::Object(texts)) = metadata.get_mut(field) else {
            continue;
        };
        texts.retain(|name, _| !OF_HELM.contains(&name.as_str()));
        if texts.is_empty()
            && let Value::Object(fields) = &mut *metadata
        {
            fields.remove(field);
        }
    }
}

/// The API server accepts the objects of the agent's own namespace, and its pod under the restricted standard.
async fn check(cluster: &Cluster, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let namespace = object["metadata"]["namespace"].as_str();
        if namespace.is_none_or(|it| it == NAMESPACE) {
            let shown = || object.to_string();
            dry_run(cluster, object).await.with_context(shown)?;
        }
        if object["kind"] == "Deployment" {
            let template = &object["spec"]["template"];
            let mut pod = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": template["metadata"].clone(),
                "spec": template["spec"].clone(),
            });
            pod["metadata"]["name"] = "agent".into();
            pod["metadata"]["namespace"] = NAMESPACE.into();
            // Admission asks for the account.
            pod["spec"]["serviceAccountName"] = "default".into();
            dry_run(cluster, &pod).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn wrong_values_of_the_agent_are_refused_with_the_next_step() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    for (set, sentence) in [
        ("tenant=acme", "does not match pattern"),
        ("join=", "set exactly one"),
        ("existingSecret=join", "set exactly one"),
        ("join=,adopt=true", "add its address"),
        ("join=a b", "does not match pattern"),
        ("hubs={http://hub.example.com}", "does not match pattern"),
        ("replica=3", "additional properties 'replica' not allowed"),
        ("replicas=9", "maximum"),
        (
            "proxy.url=http://user:password@proxy:3128",
            "does not match pattern",
        ),
        (
            "proxy.url=http://proxy:3128,proxy.existingSecret=proxy",
            "remove proxy.url",
        ),
        ("ca.pem=KEY", "does not match pattern"),
        ("ca.existingSecret=a,ca.existingConfigMap=b", "one source"),
        ("operatorNamespaces={kube-system}", "reserved"),
        ("impersonation=full", "must be one of"),
        ("gitops.adopt=true", "set flux or argocd"),
        ("traces.endpoint=grpc://a:4317", "does not match pattern"),
        ("traces.ratio=2", "at '/traces/ratio'"),
        ("traces.ca.existingConfigMap=a", "set its address"),
        (
            "traces.endpoint=http://a,traces.ca.existingSecret=a,traces.ca.existingConfigMap=b",
            "one source",
        ),
    ] {
        let values = ["--set", "tenant=t-acme,join=fl1.abc", "--set", set];
        let refused = template(cluster, &values).await.err();
        let refused = refused.with_context(|| format!("{set}: accepted"))?;
        ensure!(refused.to_string().contains(sentence), "{set}: {refused}");
        ensure!(!set.contains("password") || !refused.to_string().contains("t-acme"));
    }
    let place = ["template", "agent", &chart(), "-n", "elsewhere"];
    let values = ["--set", "tenant=t-acme,join=fl1.abc"];
    let refused = helm(cluster, &[&place[..], &values[..]].concat()).await;
    let refused = refused.err().context("accepted in another namespace")?;
    ensure!(
        refused.to_string().contains("--namespace fairlead"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn agent_release_connects_is_changed_and_leaves_nothing_behind() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start(), Hub::start())?;
    restricted(&cluster, NAMESPACE).await?;
    headers(&cluster).await?;
    let before = all(&cluster).await?;
    let choices = Choices {
        name: RELEASED,
        settings: &["--site-ca-file", "ca.pem"],
        agent: &[],
        flags: &["--delivery", "none"],
    };
    let values = text(&registered(&hub, &choices).await?);
    let collector = FakeCollector::start();
    let traces = format!(
        "traces.endpoint={},traces.ratio=0.5,traces.headers.existingSecret={HEADERS}",
        collector.url()
    );
    let upgrade = [
        "upgrade",
        "--install",
        "fairlead-agent",
        &chart(),
        "-n",
        NAMESPACE,
        "-f",
        &values,
        "--set",
        &traces,
    ];
    helm(&cluster, &upgrade).await?;
    let running = begin(&hub, &cluster).await?;
    hub.wait_state(RELEASED, "Connected").await?;
    let identity = secret(&cluster, "fairlead-identity", "identity.json").await?;
    ensure!(!identity.is_empty(), "no identity");
    exports_spans(&hub, &collector).await?;

    let changed = [
        "--set",
        "podAnnotations.example\\.com/note=second,replicas=3",
    ];
    helm(&cluster, &[&upgrade[..], &changed[..]].concat()).await?;
    let kept = secret(&cluster, "fairlead-identity", "identity.json").await?;
    ensure!(kept == identity, "the upgrade has changed the identity");
    let rollout = [
        "rollout",
        "status",
        "deployment/fairlead-agent",
        "-n",
        NAMESPACE,
        "--timeout=60s",
    ];
    let rollout = cluster.kubectl().args(rollout).deadline(ROLLOUT_DEADLINE);
    rollout.run().await?.success()?;

    drop(running);
    helm(&cluster, &["uninstall", "fairlead-agent", "-n", NAMESPACE]).await?;
    let mut left = Vec::new();
    let gone = eventually(REMOVAL_DEADLINE, "only objects from before", async || {
        left = all(&cluster).await.ok()?;
        (left == before).then_some(())
    });
    gone.await.with_context(|| {
        let more: Vec<&String> = left.iter().filter(|it| !before.contains(it)).collect();
        format!("left: {more:?}")
    })
}

/// Makes the Secret of the site with a header for the collector of traces.
async fn headers(cluster: &Cluster) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": HEADERS, "namespace": NAMESPACE },
        "stringData": { "headers": format!("authorization={CREDENTIAL}\n") },
    });
    let create = cluster.kubectl().args(["create", "-f", "-"]);
    create.stdin(secret.to_string()).run().await?.success()?;
    Ok(())
}

/// The agent exports the spans of a sampled request, with the header of the Secret.
async fn exports_spans(hub: &Hub, collector: &FakeCollector) -> anyhow::Result<()> {
    let get = ["cluster", "get", RELEASED, "-o", "json"];
    let cluster: Value = serde_json::from_str(&hub.cli(get).await?.success()?)?;
    let id = cluster["id"].as_str().context("no id")?;
    let front = hub.front()?;
    let request = format!(
        "GET /k8s/clusters/{id}/version HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\ntraceparent: {PARENT}\r\nConnection: close\r\n\r\n",
        front.address(),
        hub.token()?,
    );
    let answer = front.send(request).await?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    let spans = timeout(SPANS_DEADLINE, collector.spans(1)).await;
    for span in spans.context("no span of the agent")? {
        ensure!(span.service == "fairlead-agent", "{span:?}");
        ensure!(span.headers["authorization"] == CREDENTIAL, "other header");
    }
    Ok(())
}

/// Starts an agent with the settings of the Deployment in the cluster.
async fn begin(hub: &Hub, cluster: &Cluster) -> anyhow::Result<Process> {
    let get = [
        "get",
        "deployment",
        "fairlead-agent",
        "-n",
        NAMESPACE,
        "-o",
        "json",
    ];
    let deployment = cluster.kubectl().args(get).run().await?.success()?;
    let deployment: Value = serde_json::from_str(&deployment)?;
    let agent = &deployment["spec"]["template"]["spec"]["containers"][0];
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": "fairlead-agent", "namespace": NAMESPACE },
    });
    let pod = Pod::install(cluster, &account.to_string(), NAMESPACE, "fairlead-agent").await?;
    let arguments = agent["args"].as_array().context("no arguments")?;
    let arguments = arguments.iter().filter_map(Value::as_str);
    let mut launch = Launch::agent()?.args(arguments).inside(&pod);
    launch = launch.env("HOME", hub.dir());
    for variable in agent["env"].as_array().context("no variables")? {
        let name = variable["name"].as_str().unwrap_or_default();
        let reference = &variable["valueFrom"]["secretKeyRef"];
        let of = |field: &str| reference[field].as_str().unwrap_or_default();
        let value = match (name, variable["value"].as_str()) {
            // Of this machine: its ports and folders are not those of a pod.
            ("FAIRLEAD_ADMIN", _) => "127.0.0.1:0".to_owned(),
            ("FAIRLEAD_CA_FILE", Some(path)) => text(&mounted(hub, cluster, path).await?),
            ("FAIRLEAD_OTLP_HEADERS_FILE", Some(_)) => {
                let file = hub.dir().join("headers");
                fs::write(&file, secret(cluster, HEADERS, "headers").await?)?;
                text(&file)
            }
            (_, Some(value)) => value.to_owned(),
            (_, None) if reference.is_object() => secret(cluster, of("name"), of("key")).await?,
            ("FAIRLEAD_POD_UID", None) => UID.to_owned(),
            (other, None) => anyhow::bail!("{other}: {variable}"),
        };
        launch = launch.env(name, value);
    }
    launch.spawn(hub.dir().join("released.log"))
}

/// File of the ConfigMap that the pod mounts there.
async fn mounted(hub: &Hub, cluster: &Cluster, path: &str) -> anyhow::Result<std::path::PathBuf> {
    let key = Path::new(path).file_name().context("no file")?;
    let template = format!("go-template={{{{index .data {key:?}}}}}");
    let get = [
        "get",
        "cm",
        "fairlead-site-ca",
        "-n",
        NAMESPACE,
        "-o",
        &template,
    ];
    let content = cluster.kubectl().args(get).run().await?.success()?;
    let file = hub.dir().join("mounted.pem");
    fs::write(&file, content)?;
    Ok(file)
}

async fn secret(cluster: &Cluster, name: &str, key: &str) -> anyhow::Result<String> {
    let template = format!("go-template={{{{index .data {key:?} | base64decode}}}}");
    let get = ["get", "secret", name, "-n", NAMESPACE, "-o", &template];
    cluster.kubectl().args(get).run().await?.success()
}

/// Kinds, namespaces and names of all objects of the cluster, but those of the control plane: it makes its own at any time.
async fn all(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let template = "go-template={{range .items}}{{.kind}} {{with .metadata.namespace}}{{.}}{{end}}/{{.metadata.name}}\n{{end}}";
    let get = ["get", KINDS, "-A", "-o", template];
    let lines = cluster.kubectl().args(get).run().await?.success()?;
    let lines = lines.lines().filter(|it| !is_of_control_plane(it));
    Ok(lines.map(str::to_owned).collect())
}

/// Whether an object is in a namespace of the control plane, or such a namespace.
fn is_of_control_plane(line: &str) -> bool {
    let Some((kind, name)) = line.split_once(' ') else {
        return false;
    };
    let (namespace, name) = name.split_once('/').unwrap_or_default();
    let is_its_namespace = namespace.starts_with("kube-") && !name.starts_with("fairlead");
    is_its_namespace || (kind == "Namespace" && name.starts_with("kube-"))
}

fn objects(yaml: &str) -> anyhow::Result<Vec<Value>> {
    let objects = fairlead_manifests::yaml::values("chart", yaml.as_bytes())?;
    Ok(objects.into_iter().map(|(value, _)| value).collect())
}

async fn template(cluster: &Cluster, values: &[&str]) -> anyhow::Result<String> {
    let template = ["template", "fairlead-agent", &chart(), "-n", NAMESPACE];
    helm(cluster, &[&template[..], values].concat()).await
}

fn chart() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    text(&folder.join("../deploy/charts/fairlead-agent"))
}
