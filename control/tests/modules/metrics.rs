//! The metrics page, parsed like Prometheus does.

use std::collections::BTreeMap;

use fairlead_api::{
    Code,
    resources::{ClusterState, ClusterStatus, Role},
};
use fairlead_seam::ClusterScope;
use http::{Method, header::IF_MATCH};
use prometheus::TextEncoder;
use serde_json::{Value, json};
use time::Duration;

use crate::rig::{Rig, admin, caller};

/// Rows by name and sorted labels, `name{a="b"}`.
struct Page(BTreeMap<String, f64>);

impl Page {
    fn value(&self, row: &str) -> Option<f64> {
        self.0.get(row).copied()
    }

    fn of(&self, name: &str) -> usize {
        let start = format!("{name}{{");
        let rows = self.0.keys();
        rows.filter(|row| row.starts_with(&start)).count()
    }
}

pub(crate) struct Metrics(fairlead_runtime::Process);

impl Metrics {
    pub(crate) async fn of(rig: &Rig) -> Self {
        let process = fairlead_runtime::Process::new();
        process.start_drain();
        let modules = rig.control.seam().modules;
        let registry = modules.iter().find(|it| it.name() == "registry").unwrap();
        registry.run(process.clone()).await;
        Metrics(process)
    }

    /// Number of database reads, and of changes by result.
    pub(crate) fn work(&self) -> BTreeMap<String, f64> {
        let mut page = self.page().0;
        page.retain(|row, _| {
            ["fairlead_store_reads_total", "fairlead_store_changes_total"]
                .iter()
                .any(|name| row.starts_with(name))
        });
        page
    }

    fn page(&self) -> Page {
        let families = self.0.registry().gather();
        let text = TextEncoder::new().encode_to_string(&families).unwrap();
        let rows = text.lines().filter(|line| !line.starts_with('#'));
        Page(rows.map(row).collect())
    }
}

fn row(line: &str) -> (String, f64) {
    let (row, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap();
    let Some((name, labels)) = row.split_once('{') else {
        return (row.to_owned(), value);
    };
    // No label value in these tests contains a comma.
    let mut labels: Vec<&str> = labels.strip_suffix('}').unwrap().split(',').collect();
    labels.sort_unstable();
    (format!("{name}{{{}}}", labels.join(",")), value)
}

#[tokio::test]
async fn resources_are_counted_under_lieutenants_metric_names() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let _token = rig.token(Role::Viewer).await;
    let metrics = Metrics::of(&rig).await;
    let page = metrics.page();
    let info =
        r#"syn_lieutenant_cluster_info{cluster="c-demo",display_name="c-demo",tenant="t-acme"}"#;
    assert_eq!(page.value(info), Some(1.0));
    assert_eq!(page.of("syn_lieutenant_tenant_info"), 2);
    let token = r#"fairlead_tokens{role="viewer",state="valid"}"#;
    assert_eq!(page.value(token), Some(1.0));
    let bootstrap = r#"fairlead_bootstrap_tokens{state="valid"}"#;
    assert_eq!(page.value(bootstrap), Some(1.0));
    rig.advance(Duration::days(1));
    let page = metrics.page();
    assert_eq!(page.value(token), Some(0.0));
    let expired = r#"fairlead_tokens{role="viewer",state="expired"}"#;
    assert_eq!(page.value(expired), Some(1.0));
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(metrics.page().of("syn_lieutenant_cluster_info"), 0);
}

#[tokio::test]
async fn metrics_and_api_agree_on_the_status_of_clusters() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    rig.cluster("new", "default").await;
    let metrics = Metrics::of(&rig).await;
    let directory = rig.control.seam().directory;
    for state in [
        ClusterState::Connected,
        ClusterState::ApiUnreachable,
        ClusterState::Lost,
    ] {
        let status = ClusterStatus {
            state,
            since: rig.now(),
            last_error: None,
            last_seen: Some(rig.now()),
            last_good_probe: None,
            hub: None,
        };
        let id = "c-demo".parse().unwrap();
        directory.report(&id, status).await.unwrap();
        let told = rig.get(&admin(), "/v1/clusters/c-demo/status").await.good();
        assert_eq!(told["state"], state.to_string());
        let page = metrics.page();
        for (cluster, state) in [("c-demo", state), ("c-new", ClusterState::Never)] {
            let row = format!(
                r#"fairlead_cluster_status{{cluster="{cluster}",status="{state}",tenant="t-default"}}"#
            );
            assert_eq!(page.value(&row), Some(1.0), "{row}");
        }
        assert_eq!(page.of("fairlead_cluster_status"), 2);
        let count = format!(r#"fairlead_clusters{{status="{state}"}}"#);
        assert_eq!(page.value(&count), Some(1.0));
        let seen =
            r#"fairlead_cluster_last_seen_timestamp_seconds{cluster="c-demo",tenant="t-default"}"#;
        assert_eq!(page.value(seen), Some(rig.now().unix_timestamp() as f64));
        assert_eq!(
            page.of("fairlead_cluster_last_good_probe_timestamp_seconds"),
            0
        );
    }
}

#[tokio::test]
async fn compile_metadata_has_a_bounded_row_per_instance_and_package() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let version = |n: usize| json!({ "url": "https://git.example/x", "version": format!("v{n}") });
    let many: BTreeMap<String, _> = (0..250)
        .map(|n| (format!("p-{n:03}"), version(n)))
        .collect();
    let body = json!({
        "lastCompile": "2026-11-21T11:00:00.000Z",
        "commodoreBuildInfo": { "gitVersion": "v1.2.3", "python-version": "3.12", "tenant": "x" },
        "global": { "url": "https://git.example/global", "gitSha": "abc" },
        "packages": many,
        "instances": { "web": { "component": "nginx", "version": "v1", "url": "u", "path": "p", "gitSha": "s" } },
    });
    let compile = caller(Role::Compile, None);
    rig.post(&compile, "/clusters/c-demo/compileMeta", body)
        .await
        .good();
    let page = Metrics::of(&rig).await.page();
    let meta = "syn_lieutenant_cluster_compile_meta";
    let whose = r#"cluster="c-demo""#;
    for (row, value) in [
        (
            format!(r#"{meta}_last_compile{{{whose},tenant="t-default"}}"#),
            1_795_258_800.0,
        ),
        (
            format!(
                r#"{meta}_commodore_build_info{{{whose},gitVersion="v1.2.3",orig_tenant="x",python_version="3.12",tenant="t-default"}}"#
            ),
            1.0,
        ),
        (
            format!(
                r#"{meta}_global{{{whose},gitSha="abc",tenant="t-default",url="https://git.example/global"}}"#
            ),
            1.0,
        ),
        (
            format!(
                r#"{meta}_instance{{{whose},component="nginx",gitSha="s",name="web",path="p",tenant="t-default",url="u",version="v1"}}"#
            ),
            1.0,
        ),
        ("fairlead_metrics_left_out".to_owned(), 50.0),
    ] {
        assert_eq!(page.value(&row), Some(value), "{row}");
    }
    assert_eq!(page.of(&format!("{meta}_package")), 200);
}

#[tokio::test]
async fn selected_facts_are_labels_and_silent_sources_stale() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let steward = fairlead_seam::Caller {
        clusters: ClusterScope::One("c-demo".parse().unwrap()),
        ..caller(Role::Cluster, None)
    };
    let told = json!({ "dynamicFacts": { "distribution": "k3s", "secret": "not a label" } });
    rig.call(&steward, Method::PATCH, "/clusters/c-demo", told)
        .await
        .good();
    let metrics = Metrics::of(&rig).await;
    let page = metrics.page();
    let facts = r#"syn_lieutenant_cluster_dynamic_facts{cluster="c-demo",distribution="k3s",tenant="t-default"}"#;
    assert_eq!(page.value(facts), Some(1.0));
    assert_eq!(page.of("syn_lieutenant_cluster_facts"), 0);
    let reported =
        r#"fairlead_cluster_facts_reported_timestamp_seconds{cluster="c-demo",source="steward"}"#;
    assert_eq!(page.value(reported), Some(1_795_262_400.25));
    let state = |state: &str| {
        let row = format!(r#"fairlead_facts_sources{{source="steward",state="{state}"}}"#);
        metrics.page().value(&row)
    };
    assert_eq!((state("fresh"), state("stale")), (Some(1.0), None));
    let old = || {
        let row = r#"fairlead_cluster_stale_facts{cluster="c-demo",tenant="t-default"}"#;
        metrics.page().value(row)
    };
    assert_eq!(old(), Some(0.0));
    rig.advance(Duration::minutes(4));
    assert_eq!((state("fresh"), state("stale")), (None, Some(1.0)));
    assert_eq!(old(), Some(2.0));
}

#[tokio::test]
async fn problem_of_a_gitops_key_is_a_row_with_a_known_code() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let steward = fairlead_seam::Caller {
        clusters: ClusterScope::One("c-demo".parse().unwrap()),
        ..caller(Role::Cluster, None)
    };
    let metrics = Metrics::of(&rig).await;
    let row =
        r#"fairlead_cluster_gitops_problem{cluster="c-demo",code="FL-6805",tenant="t-default"}"#;
    for (code, rows) in [("FL-6805", 1), ("FL-0000", 0), ("any text", 0)] {
        let told = json!({ "dynamicFacts": { "gitops": { "code": code } } });
        let told = rig.call(&steward, Method::PATCH, "/clusters/c-demo", told);
        told.await.good();
        let page = metrics.page();
        assert_eq!(page.of("fairlead_cluster_gitops_problem"), rows, "{code}");
        assert_eq!(page.value(row).is_some(), rows == 1, "{code}");
    }
    let problems = json!([{ "code": "FL-6812" }, { "code": "FL-6813" }, { "code": "FL-6813" }, { "code": "x" }]);
    let fact = json!({ "code": "FL-6805", "health": { "problems": problems } });
    let told = json!({ "dynamicFacts": { "gitops": fact } });
    let told = rig.call(&steward, Method::PATCH, "/clusters/c-demo", told);
    told.await.good();
    let rows = metrics.page().of("fairlead_cluster_gitops_problem");
    assert_eq!(rows, 3, "one row for each known code");
}

#[tokio::test]
async fn the_store_counts_changes_by_outcome_and_duration() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let metrics = Metrics::of(&rig).await;
    let count = |outcome: &str| {
        let row = format!(r#"fairlead_store_changes_total{{outcome="{outcome}"}}"#);
        metrics.page().value(&row).unwrap()
    };
    let (written, refused) = (count("written"), count("refused"));
    for (method, body) in [
        (Method::PATCH, json!({ "displayName": "New" })),
        (Method::DELETE, Value::Null),
    ] {
        let lost = rig
            .with_precondition(
                &admin(),
                method,
                "/clusters/c-demo",
                (IF_MATCH, "\"7\""),
                body,
            )
            .await;
        assert_eq!(lost.code(), Code::ChangedMeanwhile);
    }
    assert_eq!(count("conflict"), 2.0);
    rig.tenant("acme").await;
    let twice = json!({ "id": "acme", "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", twice).await.code();
    assert_eq!(count("written"), written + 1.0);
    assert_eq!(count("refused"), refused + 1.0);
    assert_eq!(count("failed"), 0.0);
    let reads = || metrics.page().value("fairlead_store_reads_total");
    let before = reads().unwrap();
    for path in ["/clusters", "/clusters/c-demo"] {
        rig.get(&admin(), path).await.good();
    }
    assert_eq!(reads(), Some(before), "these are in memory");
    // The last uses of tokens are in the database.
    for path in [
        "/v1/audit",
        "/v1/clusters/c-demo/facts/history",
        "/v1/tokens",
    ] {
        rig.get(&admin(), path).await.good();
    }
    assert_eq!(reads(), Some(before + 3.0));
    let page = metrics.page();
    let value = |row: &str| page.value(row).unwrap();
    assert_eq!(value("fairlead_store_conflicts_total"), 0.0);
    let commits = value("fairlead_store_commit_duration_seconds_count");
    assert!(commits > 0.0 && commits <= value("fairlead_store_change_duration_seconds_count"));
    assert!(value("fairlead_store_revision") > 2.0);
}

#[tokio::test]
async fn seconds_are_durations_or_timestamps_by_their_names() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let process = fairlead_runtime::Process::new();
    process.start_drain();
    for module in rig.control.seam().modules {
        module.run(process.clone()).await;
    }
    let families = process.registry().gather();
    let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
    let ours = names.iter().filter(|name| name.starts_with("fairlead_"));
    let seconds: Vec<_> = ours.filter(|name| name.ends_with("_seconds")).collect();
    assert!(seconds.len() >= 3, "{names:?}");
    for name in seconds {
        let suffix = ["_duration_seconds", "_timestamp_seconds"];
        assert!(suffix.iter().any(|it| name.ends_with(it)), "{name}");
    }
}
