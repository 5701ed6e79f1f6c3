use serde_json::json;

use super::*;

const OBJECTS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: syn.tools/v1alpha1
  kind: Tenant
  metadata:
    name: t-acme
    namespace: lieutenant
    annotations:
      lieutenant.syn.tools/tenant-template: default
      monitoring.syn.tools/sla: "24/7"
      kubectl.kubernetes.io/last-applied-configuration: "{}"
  spec:
    displayName: Acme Corp.
    gitRepoURL: ssh://git@git.example/acme/config.git
    gitRepoRevision: v1.2.3
    gitRepoTemplate:
      repoType: auto
      path: acme
      repoName: config
      templateFiles: { README.md: "Acme\n", sub/old.yml: "{delete}" }
      ciVariables:
      - { name: TOKEN, value: s3cret-of-the-ci }
      - name: FROM
        valueFrom: { secretKeyRef: { name: ci, key: api } }
        gitlabOptions: { masked: true }
      - { name: CLUSTERS, value: c-one }
    creationPolicy: Adopt
    deletionPolicy: Archive
    clusterTemplate:
      facts: { cloud: aws, region: "{{ .Facts.zone }}" }
      deletionPolicy: Archive
      gitRepoTemplate: { repoType: auto }
    compilePipeline: { enabled: true, pipelineFiles: { .gitlab-ci.yml: "stages: []" } }
- apiVersion: syn.tools/v1alpha1
  kind: TenantTemplate
  metadata: { name: default }
  spec:
    displayName: not this one
    globalGitRepoURL: ssh://git@git.example/global/defaults.git
    globalGitRepoRevision: v9
- apiVersion: syn.tools/v1alpha1
  kind: Cluster
  metadata: { name: c-one }
  spec:
    displayName: One
    tenantRef: { name: t-acme }
    gitRepoURL: ssh://git@git.example/acme/c-one.git
    gitHostKeys: |
      git.example ssh-ed25519 AAAA
    tokenLifeTime: 30m
    facts: { cloud: aws, distribution: openshift4 }
    creationPolicy: Adopt
    enableCompilation: true
    gitRepoTemplate:
      deletionPolicy: Retain
      templateFiles: { a: b }
      deployKeys:
        steward: { type: ssh-rsa, key: QUJD }
        ci: { type: ssh-ed25519, key: REVG, writeAccess: true }
        broken: { type: ssh-rsa }
  status:
    bootstrapToken: { token: very-secret, tokenValid: false, validUntil: "2024-01-01T00:00:00Z" }
    facts:
      kubernetesVersion: '{"major":"1","minor":"31"}'
      name: plain text
      nodes: "3"
    compileMeta:
      lastCompile: "2026-11-01T10:00:00Z"
      commodoreBuildInfo: { version: v1.30.0 }
      global: {}
      instances:
        argocd: { component: argocd, version: v6.1.0 }
- apiVersion: syn.tools/v1alpha1
  kind: Cluster
  metadata: { name: c-two }
  spec: { tenantRef: { name: t-acme } }
  status: { bootstrapToken: { token: other-secret, tokenValid: true } }
- apiVersion: syn.tools/v1alpha1
  kind: GitRepo
  metadata: { name: c-two }
  spec: { repoType: unmanaged, tenantRef: { name: t-acme }, apiSecretRef: { name: api } }
  status: { phase: created, url: "file:///srv/two", hostKeys: "git.example ssh-rsa BBBB" }
- apiVersion: syn.tools/v1alpha1
  kind: GitRepo
  metadata: { name: t-forgotten }
- apiVersion: syn.tools/v1alpha1
  kind: Cluster
  metadata: { name: Not_An_Id }
  spec: { tenantRef: { name: t-acme } }
- apiVersion: v1
  kind: Secret
  metadata: { name: api }
"#;

fn planned() -> ImportPlan {
    plan(read(OBJECTS).unwrap())
}

#[test]
fn a_tenant_is_merged_with_its_template() {
    let plan = planned();
    let [tenant] = plan.tenants.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(tenant.id.as_str(), "t-acme");
    assert_eq!(
        tenant.document,
        json!({
            "displayName": "Acme Corp.",
            "annotations": {
                "lieutenant.syn.tools/tenant-template": "default",
                "monitoring.syn.tools/sla": "24/7",
            },
            "gitRepo": { "url": "ssh://git@git.example/acme/config.git", "type": "auto", "revision": "v1.2.3", "path": "acme", "repoName": "config",
                "templateFiles": { "README.md": "Acme\n", "sub/old.yml": { "delete": true } },
                "ciVariables": { "FROM": { "valueFrom": { "name": "ci", "key": "api" }, "protected": false, "masked": true, "raw": false } },
            },
            "globalGitRepoURL": "ssh://git@git.example/global/defaults.git",
            "globalGitRepoRevision": "v9",
            "clusterTemplate": {
                "facts": { "cloud": "aws" },
                "gitRepo": { "type": "auto" },
                "creationPolicy": "Adopt",
                "deletionPolicy": "Archive",
            },
            "compilePipeline": { "enabled": true, "pipelineFiles": { ".gitlab-ci.yml": "stages: []" } },
        })
    );
}

#[test]
fn a_cluster_keeps_facts_keys_and_compile_metadata() {
    let plan = planned();
    let one = &plan.clusters[0];
    assert_eq!(one.id.as_str(), "c-one");
    assert!(!one.awaits_agent);
    assert_eq!(
        one.document,
        json!({
            "tenant": "t-acme",
            "displayName": "One",
            "facts": { "cloud": "aws", "distribution": "openshift4" },
            "gitRepo": {
                "url": "ssh://git@git.example/acme/c-one.git",
                "hostKeys": "git.example ssh-ed25519 AAAA\n",
                "deployKey": "ssh-rsa QUJD",
                "deployKeys": { "ci": { "key": "ssh-ed25519 REVG", "writeAccess": true } },
                "templateFiles": { "a": "b" },
            },
            "creationPolicy": "Adopt",
            "deletionPolicy": "Retain",
            "enableCompilation": true,
        })
    );
    assert_eq!(
        one.dynamic_facts,
        Some(json!({
            "kubernetesVersion": { "major": "1", "minor": "31" },
            "name": "plain text",
            "nodes": 3,
        }))
    );
    assert_eq!(
        one.compile_meta,
        Some(json!({
            "lastCompile": "2026-11-01T10:00:00Z",
            "commodoreBuildInfo": { "version": "v1.30.0" },
            "instances": { "argocd": { "component": "argocd", "version": "v6.1.0" } },
        }))
    );
}

#[test]
fn the_operators_repository_fills_missing_fields() {
    let plan = planned();
    let two = &plan.clusters[1];
    assert!(two.awaits_agent && two.dynamic_facts.is_none() && two.compile_meta.is_none());
    assert_eq!(
        two.document,
        json!({
            "tenant": "t-acme",
            "gitRepo": {
                "url": "file:///srv/two",
                "type": "unmanaged",
                "hostKeys": "git.example ssh-rsa BBBB",
                "apiSecretRef": { "name": "api" },
            },
        })
    );
}

#[test]
fn unsupported_fields_are_reported_and_secrets_dropped() {
    let plan = planned();
    assert_eq!(plan.clusters.len(), 2);
    let left_out = plan.left_out.join("\n");
    for expected in [
        "Tenant t-acme: fact region of its clusterTemplate is a Go template",
        "Tenant t-acme: the value of its CI variable TOKEN is not imported",
        "Tenant t-acme: its compile pipeline needs a token of this hub",
        "Cluster c-one: its deploy key broken has no type or no key",
        "Cluster c-one: spec.tokenLifeTime is not supported",
        "Cluster c-two: its bootstrap token was open",
        "GitRepo t-forgotten: no tenant or cluster has this name",
        "Cluster Not_An_Id: an id starts with \"c-\"",
        "Secret api: not a resource of Lieutenant (v1)",
    ] {
        assert!(
            left_out.contains(expected),
            "{expected}\nis not in\n{left_out}"
        );
    }
    let all = format!("{plan:?}");
    for secret in ["very-secret", "other-secret", "s3cret-of-the-ci"] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[test]
fn documents_lists_and_json_are_accepted() {
    let one = r#"{"apiVersion":"syn.tools/v1alpha1","kind":"Tenant","metadata":{"name":"t-a"}}"#;
    let two = "---\nkind: Tenant\n---\n---\nkind: Cluster\n";
    assert_eq!(read(one).unwrap().len(), 1);
    assert_eq!(read(two).unwrap().len(), 2);
    assert_eq!(read(OBJECTS).unwrap().len(), 8);
    for text in ["[1]", "just a text", "a: [", "- 1"] {
        assert_eq!(read(text).unwrap_err().code, Code::Invalid, "{text}");
    }
}
