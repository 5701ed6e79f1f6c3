//! Mistakes in documents, and values taken away by documents.

use super::{FLEET, hub::TestHub, printed::SAME};

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn errors_in_documents_have_code_cause_and_next_step() {
    let hub = TestHub::start();
    hub.applied(FLEET);
    for (name, text, told, exit, code) in [
        ("bad.yaml", "id: [c-a\n", "bad.yaml: ", 2, "FL-4109"),
        (
            "none.yaml",
            "---\nfacts: {}\n",
            "document 1: ",
            2,
            "FL-4109",
        ),
        (
            "field.yaml",
            "{id: c-new, tenant: t-acme, fatcs: {a: b}}",
            "unknown field \"fatcs.a\"",
            2,
            "FL-4109",
        ),
        (
            "patch.yaml",
            "{id: c-edge, displayname: X}",
            "unknown field \"displayname\"",
            2,
            "FL-4109",
        ),
        (
            "value.yaml",
            "{id: c-edge, deletionPolicy: Never}",
            "deletionPolicy: expected",
            2,
            "FL-4109",
        ),
        (
            "number.yaml",
            "{id: c-edge, facts: {a: 1}}",
            "facts.a: expected a string",
            2,
            "FL-4109",
        ),
        (
            "secret.yaml",
            "{id: c-edge, gitRepo: {url: 'https://a:pw@git.example/a/b'}}",
            "gitRepo.url: a password",
            2,
            "FL-4109",
        ),
        (
            "tenant.yaml",
            "{id: c-new, tenant: t-none}",
            "there is no such tenant",
            4,
            "FL-4107",
        ),
        (
            "moved.yaml",
            "{id: c-edge, tenant: t-default}",
            "fairlead cluster move",
            2,
            "FL-4109",
        ),
        (
            "kube.yaml",
            "{apiVersion: v1, kind: Pod, id: c-x}",
            "object of Kubernetes",
            2,
            "FL-4109",
        ),
    ] {
        let output = hub.apply(&["-f", &hub.file(name, text)]);
        let said = &output.stderr;
        assert!(output.code == exit, "{name}: {output:?}");
        assert!(
            said.starts_with("error: ") && said.contains("\nnext:  "),
            "{name}: {said}"
        );
        assert!(said.contains(told), "{name}: {said}");
        assert!(
            said.ends_with(&format!("\ncode:  {code}\n")),
            "{name}: {said}"
        );
        assert!(!said.contains("pw@"), "{said}");
    }
    let missing = hub.apply(&["-f", "/none.yaml"]);
    assert!(
        missing.code == 2
            && missing.stderr.contains("next:  Check its path")
            && missing.stderr.ends_with("code:  FL-4119\n"),
        "{missing:?}"
    );
    for args in [
        &["apply"][..],
        &["get", "c-edge", "-o", "jsonpath={.a"],
        &["list", "--colour"],
    ] {
        let usage = hub.run(&[&["cluster"], args].concat());
        assert!(usage.code == 2, "{usage:?}");
        assert!(usage.stderr.ends_with("code:  FL-4117\n"), "{usage:?}");
    }
}

#[test]
fn last_fact_or_annotation_is_taken_away_by_a_flag_and_by_a_document() {
    let hub = TestHub::start();
    hub.applied(FLEET);
    let set = |words: &[&str]| {
        let words = [&["cluster", "set", "c-edge"], words, &["--yes"]].concat();
        hub.run(&words).success()
    };
    let gone = set(&["--fact", "cloud-"]);
    assert!(gone.contains("  - facts.cloud: \"aws\"\n"), "{gone}");
    set(&[
        "--annotation",
        "a=b",
        "--fact",
        "a=1",
        "--fact",
        "b=2",
        "--kube-api",
        "https://k",
    ]);
    for (name, text, line) in [
        ("one.yaml", "facts: {a: null}", "- facts.a"),
        ("all.yaml", "facts: null", "- facts.b"),
        ("note.yaml", "annotations: {a: null}", "- annotations.a"),
        ("api.yaml", "kubeApi: null", "- kubeApi.endpoint"),
    ] {
        let path = hub.file(name, &format!("id: c-edge\n{text}\n"));
        let gone = hub.apply(&["-f", &path, "--yes"]).success();
        assert!(gone.contains(line), "{gone}");
        let again = hub.apply(&["-f", &path]).success();
        assert!(again == SAME, "{again}");
    }
    let edge = hub.json(&["cluster", "get", "c-edge"]);
    let none = serde_json::json!({});
    assert!(
        edge["facts"] == none && edge["annotations"] == none,
        "{edge}"
    );
}
