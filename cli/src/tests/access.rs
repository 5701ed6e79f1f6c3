//! Names that are ambiguous, rights and protection.

use fairlead_client::Environment;

use super::hub::{TestHub, run};

/// A hub where one display name is the id of another cluster, and two clusters have one name.
fn confusing_hub() -> TestHub {
    let hub = TestHub::start();
    for (name, id) in [
        ("a", "c-one"),
        ("a", "c-two"),
        ("c-one", "c-three"),
        ("demo", "c-demo"),
    ] {
        let create = [
            "cluster",
            "create",
            name,
            "--id",
            id,
            "--allow-duplicate-name",
        ];
        hub.run(&create).success();
    }
    hub
}

#[test]
fn kubeconfig_without_clusters_reports_it() {
    let hub = TestHub::start();
    let none = hub.run(&["kubeconfig"]);
    assert!(none.stderr.starts_with("No clusters"), "{none:?}");
    assert!(none.success().contains("contexts: []"));
}

#[test]
fn deletes_take_several_names_and_none_that_is_ambiguous() {
    let hub = confusing_hub();
    let run = |words: &[&str]| hub.run(words);
    let delete = ["cluster", "delete", "--yes"];
    for wrong in [&["demo", "a"][..], &["demo", "nosuch"]] {
        let refused = run(&[&delete, wrong].concat());
        assert!(
            refused.code != 0 && refused.stdout.is_empty(),
            "{refused:?}"
        );
    }
    let unasked = run(&["cluster", "delete", "c-two", "demo"]);
    assert!(
        unasked.stderr.contains("c-two (a)") && unasked.stderr.contains("c-demo (demo)"),
        "{unasked:?}"
    );
    run(&["cluster", "set", "c-two", "--fact", "env=test"]).success();
    run(&["cluster", "set", "demo", "--delete-protection"]).success();
    let partly = run(&[&delete[..], &["c-one", "demo", "c-one"]].concat());
    assert!(
        partly.code == 6 && partly.stdout == "Deleted c-one.\n",
        "{partly:?}"
    );
    assert!(
        partly.stderr.contains("1 of 2 were not deleted: c-demo: "),
        "{partly:?}"
    );
    let selected = run(&[&delete[..], &["-l", "env=test"]].concat()).success();
    assert!(selected == "Deleted c-two.\n", "{selected}");
    let none = run(&[&delete[..], &["-l", "env=test"]].concat());
    assert!(none.stderr.starts_with("No clusters match"), "{none:?}");
    none.success();
    // A name in the form of an id finds its cluster once no cluster has that id.
    run(&[&delete[..], &["c-one"]].concat()).success();
    let left = run(&["cluster", "list", "-o", "name"]).success();
    assert!(left == "c-demo\n", "{left}");

    for name in ["ci", "ci-2"] {
        run(&["token", "create", name, "--role", "viewer"]).success();
    }
    let revoked = run(&["token", "delete", "ci", "ci-2", "--yes"]).success();
    assert!(revoked.matches("Revoked k-").count() == 2, "{revoked}");
    for name in ["one", "two"] {
        run(&["tenant", "create", name]).success();
    }
    let again = run(&["tenant", "create", "one"]);
    assert!(again.code == 6, "{again:?}");
    let set = [
        "tenant",
        "set",
        "two",
        "--name",
        "Second",
        "--parent",
        "one",
        "--annotation",
        "sla=gold",
    ];
    let set = run(&set).success();
    assert!(set.contains("1 changed"), "{set}");
    let deleted = run(&["tenant", "delete", "t-two", "t-one", "--yes"]).success();
    assert!(deleted == "Deleted t-two.\nDeleted t-one.\n", "{deleted}");
}

#[test]
fn refusal_names_the_role_that_is_needed() {
    let hub = TestHub::start();
    hub.run(&["tenant", "create", "acme"]).success();
    let create = [
        "token", "create", "team", "--role", "viewer", "--tenant", "acme",
    ];
    let token = hub.run(&create).success();
    let home = hub.dir().to_str().unwrap();
    let environment = Environment::of(&[("HOME", home), ("FAIRLEAD_TOKEN", token.trim())]);
    let refused = run(&["cluster", "create", "demo"], &environment);
    assert!(refused.code == 3, "{refused:?}");
    let told = "team\" has the role viewer on t-acme; \
        registering, changing or deleting a cluster needs the role admin or tenant\n\
        next:  Use a token with the role admin or tenant; `fairlead whoami` shows yours.\n";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let shown = run(&["cluster", "list"], &environment);
    assert!(shown.stderr == "No clusters found.\n", "{shown:?}");
}

#[test]
fn flags_equal_documents_and_protected_clusters_stay() {
    let hub = TestHub::start();
    hub.run(&[
        "cluster",
        "create",
        "prod",
        "--id",
        "c-prod",
        "--creation-policy",
        "Adopt",
        "--deletion-policy",
        "Archive",
        "--delete-protection",
        "--kube-api",
        "https://k.example:6443",
        "--kube-api-credentials",
        "ns/kube",
        "--fact",
        "env=prod",
    ])
    .success();
    let prod = hub.json(&["cluster", "get", "c-prod"]);
    for (pointer, value) in [
        ("/creationPolicy", "Adopt"),
        ("/deletionPolicy", "Archive"),
        ("/kubeApi/credentials/name", "kube"),
        ("/facts/env", "prod"),
    ] {
        assert!(
            prod.pointer(pointer).is_some_and(|it| it == value),
            "{pointer}: {prod}"
        );
    }
    let kept = hub.run(&["cluster", "delete", "c-prod", "--yes"]);
    assert!(
        kept.code == 6 && kept.stderr.contains("FL-4116"),
        "{kept:?}"
    );
    let lift = ["cluster", "set", "prod", "--delete-protection=false"];
    let unasked = hub.run(&lift);
    assert!(
        unasked.stderr.contains("lifts its protection"),
        "{unasked:?}"
    );
    hub.run(&[&lift[..], &["--yes"]].concat()).success();
    let unasked = hub.run(&["cluster", "delete", "c-prod"]);
    assert!(unasked.stderr.ends_with("code:  FL-4118\n"), "{unasked:?}");

    hub.run(&["tenant", "create", "acme"]).success();
    let moved = hub.run(&["cluster", "move", "prod", "t-acme", "--yes", "-o", "name"]);
    assert!(moved.success() == "c-prod\n");
    let of_acme = [
        "cluster", "list", "--tenant", "t-acme", "--fact", "env:prod", "-o",
    ];
    let names = hub.run(&[&of_acme[..], &["name"]].concat()).success();
    assert!(names == "c-prod\n", "{names}");
    let path = "jsonpath={range .items[*]}{.id}={.tenant}{\"\\n\"}{end}";
    let parts = hub.run(&[&of_acme[..], &[path]].concat()).success();
    assert!(parts == "c-prod=t-acme\n", "{parts:?}");
    hub.run(&["tenant", "delete", "t-acme", "--cascade", "--yes"])
        .success();
}
