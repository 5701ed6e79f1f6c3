use serde_json::Value;

use super::*;

const RUN: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn upgrade() -> UpgradeInstall {
    let spec = format!("sha256:{}", "0123456789abcdef".repeat(4));
    UpgradeInstall {
        release: "shop".parse().unwrap(),
        namespace: "shop".parse().unwrap(),
        chart: "chart".parse().unwrap(),
        values: vec!["values/0.yaml".parse().unwrap()],
        bundle: "b-shop".parse().unwrap(),
        spec: spec.parse().unwrap(),
        timeout_seconds: 300,
        history_max: 10,
        create_namespace: true,
        take_ownership: false,
        skip_crds: true,
        force_conflicts: false,
        dry_run: false,
        kept: None,
    }
}

fn request(operation: Operation, paths: &[&str]) -> RunRequest {
    let file = |path: &&str| FileEntry {
        path: path.parse().unwrap(),
        size: 1,
    };
    RunRequest {
        program: HELM.into(),
        operation,
        cluster: Some(ClusterAccess {
            server: "https://127.0.0.1:6443".into(),
            ca: None,
            tls_server_name: None,
            token: "token".into(),
        }),
        timeout_seconds: 60,
        files: paths.iter().map(file).collect(),
    }
}

#[test]
fn upgrade_is_one_command_line_without_free_arguments() {
    let key: RunKey = format!("{RUN}.2").parse().unwrap();
    let args = Operation::UpgradeInstall(upgrade()).args(&key, Path::new("/w/files"));
    let args: Vec<_> = args.iter().map(|it| it.to_str().unwrap()).collect();
    let labels = format!(
        "--labels=fairlead-run={RUN},fairlead-attempt=2,fairlead-bundle=b-shop,fairlead-spec=0123456789abcdef0123456789abcdef01234567"
    );
    let description = format!("--description=Fairlead {RUN}, attempt 2");
    assert_eq!(
        args,
        [
            "upgrade",
            "--install",
            "shop",
            "/w/files/chart",
            "--namespace=shop",
            "--values=/w/files/values/0.yaml",
            &labels,
            &description,
            "--history-max=10",
            "--wait=hookOnly",
            "--server-side=auto",
            "--reset-values",
            "--timeout=300s",
            "--create-namespace",
            "--skip-crds",
        ]
    );
}

#[test]
fn kept_fields_name_the_post_renderer_of_the_runner_alone() {
    let key: RunKey = format!("{RUN}.1").parse().unwrap();
    let kept = UpgradeInstall {
        kept: Some("kept.json".parse().unwrap()),
        ..upgrade()
    };
    let operation = Operation::UpgradeInstall(kept);
    let args = operation.args(&key, Path::new("/w/files"));
    assert_eq!(args.last().unwrap(), "--post-renderer=fairlead");
    let files = ["chart/Chart.yaml", "values/0.yaml", "kept.json"];
    assert_eq!(request(operation.clone(), &files).check(100, 3), Ok(()));
    let missing = request(operation, &files[..2]).check(100, 3);
    assert!(matches!(missing, Err(Refusal::Invalid(_))), "{missing:?}");
}

#[test]
fn request_with_raw_arguments_is_refused() {
    let good = serde_json::to_value(request(
        Operation::UpgradeInstall(upgrade()),
        &["chart/Chart.yaml"],
    ))
    .unwrap();
    assert!(serde_json::from_value::<RunRequest>(good.clone()).is_ok());
    let mut with_args = good.clone();
    with_args["args"] = json!(["--post-renderer=x"]);
    let mut with_flag = good.clone();
    with_flag["operation"]["upgradeInstall"]["postRenderer"] = json!("x");
    let mut with_release = good.clone();
    with_release["operation"]["upgradeInstall"]["release"] = json!("--debug");
    let mut with_path = good;
    with_path["operation"]["upgradeInstall"]["chart"] = json!("../../bin/sh");
    for bad in [with_args, with_flag, with_release, with_path] {
        assert!(
            serde_json::from_value::<RunRequest>(bad.clone()).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn request_is_checked_beyond_its_types() {
    let check = |request: &RunRequest| request.check(100, 3);
    let good = request(
        Operation::UpgradeInstall(upgrade()),
        &["chart/Chart.yaml", "values/0.yaml"],
    );
    assert_eq!(check(&good), Ok(()));

    let unknown = RunRequest {
        program: "sh".into(),
        ..good.clone()
    };
    assert_eq!(check(&unknown), Err(Refusal::UnknownProgram("sh".into())));
    let no_access = RunRequest {
        cluster: None,
        ..good.clone()
    };
    let no_chart = request(Operation::UpgradeInstall(upgrade()), &["values/0.yaml"]);
    let no_time = RunRequest {
        timeout_seconds: 0,
        ..good.clone()
    };
    let mut comma = upgrade();
    comma.values = vec!["values/0.yaml,x".parse().unwrap()];
    let comma = request(
        Operation::UpgradeInstall(comma),
        &["chart/a", "values/0.yaml,x"],
    );
    for bad in [no_access, no_chart, no_time, comma] {
        assert!(matches!(check(&bad), Err(Refusal::Invalid(_))), "{bad:?}");
    }
    for server in ["", "unix:///x", "https://a b", "https://a\nb"] {
        let mut bad = good.clone();
        bad.cluster.as_mut().unwrap().server = server.into();
        assert!(
            matches!(check(&bad), Err(Refusal::Invalid(_))),
            "{server:?}"
        );
    }
    let many = request(
        Operation::UpgradeInstall(upgrade()),
        &["chart/a", "values/0.yaml", "b", "c"],
    );
    let mut large = good.clone();
    large.files[0].size = 100;
    let mut overflow = good;
    overflow.files[0].size = u64::MAX;
    for bad in [many, large, overflow] {
        assert_eq!(check(&bad), Err(Refusal::TooLarge));
    }
}

#[test]
fn debug_hides_the_token_and_the_kubeconfig_names_its_file() {
    let request = request(Operation::Version, &[]);
    assert!(!format!("{request:?}").contains("\"token\""));
    let access = request.cluster.unwrap();
    let text = access.kubeconfig(Path::new("/w/token"), None);
    let config: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(config["users"][0]["user"], json!({"tokenFile": "/w/token"}));
}

#[test]
fn key_has_one_text() {
    let text = format!("{RUN}.3");
    let key: RunKey = text.parse().unwrap();
    assert_eq!((key.attempt, key.to_string()), (3, text));
    for bad in [
        format!("{RUN}.03"),
        format!("{RUN}.+3"),
        format!("{RUN}."),
        RUN.into(),
        "../x.1".into(),
    ] {
        assert!(bad.parse::<RunKey>().is_err(), "{bad}");
    }
}
