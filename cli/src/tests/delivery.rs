//! Bundles, groups and sources, and the plans that their changes need.

use std::fs;

use super::hub::TestHub;

const WEB: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: \"${vars.size:-1}\"}
";

/// A hub with the clusters `c-berlin` and `c-oslo` of `env=prod`, and `c-test` of `env=test`.
fn hub() -> TestHub {
    let hub = TestHub::start();
    hub.applied(
        "{id: t-acme, displayName: Acme, gitRepo: {type: unmanaged}}\n---\n\
         {id: c-berlin, tenant: t-acme, displayName: berlin, annotations: {env: prod}}\n---\n\
         {id: c-oslo, tenant: t-acme, displayName: oslo, annotations: {env: prod}}\n---\n\
         {id: c-test, tenant: t-acme, displayName: test, annotations: {env: test}}\n",
    );
    hub
}

/// A folder `shop` with these files.
fn folder(hub: &TestHub, files: &[(&str, &str)]) -> String {
    let folder = hub.dir().join("shop");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn deployed_folder_becomes_a_bundle_with_generations() {
    let hub = hub();
    let shop = folder(&hub, &[("web.yaml", WEB)]);
    let deploy = |more: &[&str]| {
        let words = [
            &["deploy", &shop, "--tenant", "acme", "--to", "env=prod"],
            more,
        ]
        .concat();
        hub.run(&words)
    };
    let plan = deploy(&["--dry-run"]).success();
    assert!(plan.contains("b-shop of t-acme (new): 1 file"), "{plan}");
    assert!(plan.contains("target `env=prod`: 2 clusters\n"), "{plan}");
    assert!(
        plan.contains("2 added, 0 changed, 0 removed, 0 blocked, 0 unchanged\n"),
        "{plan}"
    );
    assert!(plan.contains("2 of them offline"), "{plan}");
    hub.run(&["bundle", "get", "shop"]).failed(4, "FL-4107");
    deploy(&[]).failed(1, "FL-4118");
    let first = deploy(&["--yes"]);
    assert!(
        first.stderr.contains("fairlead rollout status b-shop -w"),
        "{first:?}"
    );
    assert!(first.success().ends_with("b-shop has generation 1.\n"));
    let same = deploy(&["--yes"]).success();
    assert!(
        same.ends_with("b-shop is unchanged: generation 1.\n"),
        "{same}"
    );
    folder(&hub, &[("web.yaml", &WEB.replace(":-1", ":-2"))]);
    // The targets on the hub stay.
    let second = hub.said(&["deploy", &shop, "--yes"]);
    assert!(second.contains("0 added, 2 changed, 0 removed"), "{second}");
    assert!(second.ends_with("b-shop has generation 2.\n"), "{second}");
    let back = hub.said(&["rollback", "shop", "--to", "1", "--yes"]);
    assert!(back == "b-shop has generation 3.\n", "{back}");
    let bundle = hub.json(&["bundle", "get", "shop"]);
    assert_eq!(bundle["generation"], 3);
    assert_eq!(
        bundle["generations"][0]["artifact"],
        bundle["generations"][2]["artifact"]
    );
    assert!(hub.said(&["bundle", "list", "-o", "name"]) == "b-shop\n");
    let plan = hub.said(&["bundle", "plan", "shop"]);
    assert!(plan.contains("b-shop generation 3\n"), "{plan}");
    assert!(plan.contains("2 unchanged\n"), "{plan}");
    let suspended = hub.said(&["bundle", "suspend", "shop"]);
    assert!(suspended == "b-shop is suspended.\n", "{suspended}");
    hub.said(&["bundle", "resume", "shop"]);
}

#[test]
fn change_that_takes_a_bundle_from_a_cluster_is_confirmed() {
    let hub = hub();
    let shop = folder(
        &hub,
        &[
            ("web.yaml", WEB),
            ("fairlead.yaml", "targets:\n- selector: env\n"),
        ],
    );
    hub.said(&["deploy", &shop, "--tenant", "acme", "--yes"]);
    let narrow = ["deploy", &shop, "--to", "env=prod"];
    let refused = hub.run(&narrow);
    refused.failed(1, "FL-4118");
    assert!(
        refused
            .stdout
            .contains("removed (their objects stay): c-test\n"),
        "{refused:?}"
    );
    assert!(
        refused.stderr.contains("takes b-shop from 1 cluster"),
        "{refused:?}"
    );
    hub.said(&[&narrow[..], &["--yes"]].concat());
    // A label of a cluster does the same.
    let set = ["cluster", "set", "oslo", "--annotation", "env=test"];
    let refused = hub.run(&set);
    refused.failed(1, "FL-4118");
    assert!(
        refused.stderr.contains("takes b-shop from c-oslo"),
        "{refused:?}"
    );
    hub.said(&[&set[..], &["--yes"]].concat());
    let refused = hub.run(&["bundle", "delete", "shop"]);
    refused.failed(1, "FL-4118");
    assert!(refused.stderr.contains("keeps its objects"), "{refused:?}");
    let deleted = hub.said(&["bundle", "delete", "shop", "--yes"]);
    assert!(
        deleted == "Deleted b-shop; its objects stay.\n",
        "{deleted}"
    );
}

#[test]
fn groups_are_set_listed_and_deleted() {
    let hub = hub();
    let set = ["group", "set", "prod", "-l", "env=prod", "--tenant", "acme"];
    let shown = hub.said(&set);
    assert!(
        shown.contains("g-prod") && shown.contains("env=prod"),
        "{shown}"
    );
    // The tenant of a known group stays.
    let group = hub.json(&["group", "set", "prod", "-l", "env in (prod, test)"]);
    assert_eq!(group["tenant"], "t-acme");
    assert_eq!(group["members"], 3);
    let shop = folder(
        &hub,
        &[
            ("web.yaml", WEB),
            ("fairlead.yaml", "targets:\n- groups: [g-prod]\n"),
        ],
    );
    hub.said(&["deploy", &shop, "--tenant", "acme", "--yes"]);
    let refused = hub.run(&["group", "set", "prod", "-l", "env=prod"]);
    refused.failed(1, "FL-4118");
    assert!(
        refused.stderr.contains("takes b-shop from c-test"),
        "{refused:?}"
    );
    hub.said(&["group", "set", "prod", "-l", "env=prod", "--yes"]);
    hub.said(&["bundle", "delete", "shop", "--yes"]);
    let deleted = hub.said(&["group", "delete", "prod", "--yes"]);
    assert!(deleted == "Deleted g-prod.\n", "{deleted}");
    let none = hub.run(&["group", "list"]);
    assert!(none.stderr == "No groups found.\n", "{none:?}");
}

#[test]
fn bundles_and_groups_are_documents() {
    let hub = hub();
    let shop = folder(&hub, &[("web.yaml", WEB)]);
    hub.said(&[
        "deploy", &shop, "--tenant", "acme", "--to", "env=prod", "--yes",
    ]);
    hub.said(&["group", "set", "prod", "-l", "env=prod", "--tenant", "acme"]);
    for (kind, id) in [("bundle", "b-shop"), ("group", "g-prod")] {
        for format in ["yaml", "json"] {
            let shown = hub.said(&[kind, "get", id, "-o", format]);
            let path = hub.file("shown.yaml", &shown);
            let same = hub.said(&[kind, "apply", "-f", &path]);
            assert!(
                same == "0 created, 0 changed, 1 unchanged.\n",
                "{kind} {format}: {same}"
            );
        }
    }
    let change = "{id: b-shop, drift: report, vars: {size: 3}}\n---\n\
                  {kind: Group, id: test, tenant: acme, selector: env=test}\n";
    let path = hub.file("change.yaml", change);
    let changed = hub.said(&["bundle", "apply", "-f", &path]);
    assert!(
        changed.contains("~ drift: \"correct\" -> \"report\"\n"),
        "{changed}"
    );
    assert!(changed.contains("create g-test\n"), "{changed}");
    assert!(
        changed.ends_with("1 created, 1 changed, 0 unchanged.\n"),
        "{changed}"
    );
    let bundle = hub.json(&["bundle", "get", "shop"]);
    assert_eq!(
        (&bundle["generation"], &bundle["vars"]["size"]),
        (&2.into(), &3.into())
    );
    // An edit that untargets clusters names them.
    let path = hub.file(
        "change.yaml",
        "{id: b-shop, targets: [{selector: env=test}]}\n",
    );
    let refused = hub.run(&["bundle", "apply", "-f", &path]);
    refused.failed(1, "FL-4118");
    let lost = "takes b-shop from c-berlin, b-shop from c-oslo";
    assert!(refused.stderr.contains(lost), "{refused:?}");
    hub.said(&["bundle", "apply", "-f", &path, "--yes"]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn mistakes_have_a_code_a_cause_and_a_next_step() {
    let hub = hub();
    let shop = folder(&hub, &[("web.yaml", WEB)]);
    let bad = hub.dir().join("bad");
    fs::create_dir_all(&bad).unwrap();
    fs::write(bad.join("fairlead.yaml"), "kind: helm\n").unwrap();
    let bad = bad.display().to_string();
    for (words, exit, code, cause) in [
        (
            &["deploy", "/none", "--to", "a=b"][..],
            2,
            "FL-4119",
            "/none",
        ),
        (
            &["deploy", &shop],
            2,
            "FL-4109",
            "no cluster is a target of b-shop",
        ),
        (&["deploy", &shop, "--to", "env=("], 2, "FL-4117", "--to"),
        (
            &["deploy", &bad, "--to", "a=b"],
            2,
            "FL-4109",
            "needs Chart.yaml",
        ),
        (
            &["deploy", &shop, "--to", "a=b", "--tenant", "none", "--yes"],
            4,
            "FL-4107",
            "tenant",
        ),
        (
            &["bundle", "get", "none"],
            4,
            "FL-4107",
            "the bundle b-none",
        ),
        (
            &["bundle", "plan", "none"],
            4,
            "FL-4107",
            "the bundle b-none",
        ),
        (
            &["bundle", "delete", "none", "--yes"],
            4,
            "FL-4107",
            "the bundle b-none",
        ),
        (
            &["bundle", "delete", "shop", "--keep", "--remove"],
            2,
            "FL-4117",
            "--remove",
        ),
        (
            &["rollback", "none", "--yes"],
            4,
            "FL-4107",
            "the bundle b-none",
        ),
        (&["group", "get", "none"], 4, "FL-4107", "the group g-none"),
        (
            &["source", "get", "none"],
            4,
            "FL-4107",
            "the source s-none",
        ),
        (
            &["rollout", "status", "none"],
            4,
            "FL-4107",
            "a rollout of b-none",
        ),
        (
            &["rollout", "pause", "r-none-1"],
            4,
            "FL-4107",
            "the rollout r-none-1",
        ),
        (
            &["deployment", "get", "berlin", "none"],
            4,
            "FL-4107",
            "no deployment of b-none",
        ),
        (
            &["deployment", "list", "--state", "Broken"],
            2,
            "FL-4117",
            "Broken",
        ),
        (
            &["run", "get", "run-01KB0000000000000000000000"],
            4,
            "FL-4107",
            "the run run-01KB",
        ),
        (&["run", "get", "run-1"], 2, "FL-4117", "26 characters"),
        (
            &["run", "list", "--state", "Broken"],
            2,
            "FL-4117",
            "Broken",
        ),
    ] {
        let output = hub.run(words);
        assert_eq!(output.code, exit, "{words:?}: {output:?}");
        let ending = format!("\ncode:  {code}\n");
        assert!(output.stderr.ends_with(&ending), "{words:?}: {output:?}");
        assert!(output.stderr.contains(cause), "{words:?}: {output:?}");
        assert!(output.stderr.contains("\nnext:  "), "{words:?}: {output:?}");
    }
}

#[test]
fn source_is_added_shown_and_deleted() {
    let hub = hub();
    let hosts = hub.file("known_hosts", "git.example.com ssh-ed25519 AAAA\n");
    let shown = hub.said(&[
        "source",
        "add",
        "platform",
        "--git",
        "ssh://git@git.example.com/platform.git",
        "--ref",
        "main",
        "--path",
        "deploy/shop",
        "--tenant",
        "acme",
        "--host-keys",
        &hosts,
        "--credentials",
        "platform-key",
    ]);
    assert!(shown.contains("s-platform"), "{shown}");
    let source = hub.json(&["source", "get", "platform"]);
    assert_eq!(source["git"]["credentials"]["name"], "platform-key");
    assert_eq!(source["git"]["paths"][0], "deploy/shop");
    let path = hub.file(
        "source.yaml",
        &hub.said(&["source", "get", "platform", "-o", "yaml"]),
    );
    let same = hub.said(&["source", "apply", "-f", &path]);
    assert!(same == "0 created, 0 changed, 1 unchanged.\n", "{same}");
    let deleted = hub.said(&["source", "delete", "platform", "--yes"]);
    assert!(
        deleted == "Deleted s-platform; its bundles stay.\n",
        "{deleted}"
    );
}
