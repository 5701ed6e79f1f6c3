//! Failures on the path to a hub, and exit codes.

use fairlead_client::Environment;

use super::hub::{Ran, TestHub, run};

/// Runs `fairlead cluster list`, configured only by the environment.
fn list(variables: &[(&str, &str)]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let home = ("HOME", folder.path().to_str().unwrap());
    run(
        &["cluster", "list"],
        &Environment::of(&[variables, &[home]].concat()),
    )
}

fn is_failure(ran: &Ran, code: u8, stable: &str, words: &[&str]) {
    ran.failed(code, stable);
    let named = words.iter().all(|word| ran.stderr.contains(word));
    assert!(named && !ran.stderr.contains("Error"), "{ran:?}");
}

#[test]
fn errors_on_the_path_to_a_hub_have_cause_and_next_step() {
    let hub = TestHub::start();
    let (url, token) = (hub.ready("url"), hub.token());
    let way = [
        ("FAIRLEAD_URL", url),
        ("FAIRLEAD_TOKEN", token.as_str()),
        ("FAIRLEAD_CA_FILE", hub.ready("ca_file")),
    ];
    list(&way).success();

    let said = list(&way[..1]);
    is_failure(
        &said,
        3,
        "FL-4106",
        &["no token for", url, "FAIRLEAD_TOKEN"],
    );
    let said = list(&way[..2]);
    let words = ["certificate is not trusted", url, "FAIRLEAD_CA_FILE"];
    is_failure(&said, 5, "FL-3105", &words);
    let plain = hub.ready("admin_url").replace("http:", "https:");
    let said = list(&[("FAIRLEAD_URL", &plain), way[1], way[2]]);
    is_failure(&said, 5, "FL-4105", &["does not speak TLS", &plain]);
    let said = list(&[way[0], ("FAIRLEAD_TOKEN", "a\nb"), way[2]]);
    is_failure(&said, 2, "FL-4101", &["the token"]);
}

#[test]
fn each_kind_of_failure_has_its_exit_code_and_one_shape() {
    let hub = TestHub::start();
    for _ in 0..2 {
        hub.said(&["cluster", "create", "twice", "--allow-duplicate-name"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let nowhere = ("HOME", folder.path().to_str().unwrap());
    let home = ("HOME", hub.dir().to_str().unwrap());
    let url = hub.ready("url");
    for (home, words, variable, code, stable) in [
        (nowhere, &["cluster", "list"][..], None, 3, "FL-4106"),
        (
            home,
            &["cluster", "list"],
            Some(("FAIRLEAD_TOKEN", "flt_wrong")),
            3,
            "FL-1102",
        ),
        (
            home,
            &["cluster", "get", "c-no-such-0000"],
            None,
            4,
            "FL-1301",
        ),
        (home, &["cluster", "get", "no name"], None, 4, "FL-1301"),
        (home, &["tenant", "get", "t-none"], None, 4, "FL-4107"),
        (home, &["cluster", "get", "twice"], None, 2, "FL-4109"),
        (home, &["cluster", "create", "twice"], None, 6, "FL-4108"),
        (
            nowhere,
            &["login", url, "--token-file", "/nosuch"],
            None,
            2,
            "FL-4119",
        ),
        (nowhere, &["logout"], None, 3, "FL-4106"),
        (nowhere, &["hub", "use", url], None, 3, "FL-4106"),
        (
            home,
            &["cluster", "create", "x", "--tenant", "t-none"],
            None,
            4,
            "FL-4107",
        ),
        (
            home,
            &["tenant", "delete", "t-default", "--yes"],
            None,
            6,
            "FL-4111",
        ),
        (nowhere, &["explain", "FL-0000"], None, 4, "FL-4107"),
    ] {
        let variables: Vec<_> = [Some(home), variable].into_iter().flatten().collect();
        let ran = run(words, &Environment::of(&variables));
        ran.failed(code, stable);
        assert!(ran.stdout.is_empty(), "{words:?}: {ran:?}");
    }
}
