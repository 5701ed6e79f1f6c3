//! Size of a fetch, charts that cannot be fetched, and the environment of git.

use fairlead_api::Code;

use super::Rig;
use crate::sources::{
    ProgramProxy,
    git::{Git, GitCall},
    schedule::{PollKey, PollOutcome},
};

#[tokio::test]
async fn a_fetch_beyond_its_limit_changes_nothing() {
    let rig = Rig::with(|it| it.max_fetch_bytes = 1024 * 1024).await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    assert_eq!(rig.poll().await, None);
    // Other folders of the commit count, too. The content does not shrink when it is packed.
    let mut number = 1_u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    };
    let noise: Vec<u8> = (0..2 * 1024 * 1024).map(|_| next()).collect();
    std::fs::write(rig.work().join("image.bin"), noise).unwrap();
    rig.file("shop/web.yaml", "kind: Secret\n");
    rig.push();
    let reason = rig.poll().await.unwrap();
    assert!(
        reason.starts_with("FL-6608") && reason.contains("more than 1 MiB"),
        "{reason}"
    );
    assert_eq!(rig.generation("b-shop"), 1);
    rig.git(&["rm", "-q", "image.bin"]);
    rig.push();
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.generation("b-shop"), 2);
}

#[tokio::test]
async fn only_429_and_503_of_a_server_are_overloads() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    let key = PollKey::of(&rig.source().tenant, &rig.source().git);
    for (status, expected) in [
        (429, PollOutcome::Overloaded),
        (503, PollOutcome::Overloaded),
        (500, PollOutcome::Failed),
        (0, PollOutcome::Succeeded),
    ] {
        rig.server.refuse(status);
        assert_eq!(rig.sources.poll(&key).await, expected, "{status}");
    }
}

#[tokio::test]
async fn chart_that_cannot_be_fetched_delays_its_bundle_only() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.file(
        "front/fairlead.yaml",
        "kind: helm\nchart: {repository: https://charts.test, name: web, version: 1.2.3}\n",
    );
    rig.push();
    rig.put(&["shop", "front"], |_| {}).await;
    let next = Code::ChartUnavailable.next_step();
    let expected = format!(
        "FL-6610: the chart cannot be fetched: chart web 1.2.3: the hub was started without --helm. {next}"
    );
    // The second poll of the same commit requests the chart again.
    for _ in 0..2 {
        assert_eq!(rig.poll().await, Some(expected.clone()));
        assert_eq!(
            (rig.generation("b-shop"), rig.generation("b-front")),
            (1, 0)
        );
    }
}

#[tokio::test]
async fn git_gets_the_proxy_and_no_other_variable() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("git");
    std::fs::write(&program, "#!/bin/sh\nenv\n").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    let variables = async |proxy: ProgramProxy| {
        let git = Git::new(program.clone(), home.path().to_owned(), proxy);
        let output = git.run(None, GitCall::new(["version"])).await.unwrap();
        let output = String::from_utf8(output).unwrap();
        let lines = output
            .lines()
            .filter(|it| it.contains("PROXY") || it.contains("proxy"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(variables(ProgramProxy::default()).await, [""; 0]);
    let proxy = ProgramProxy {
        https_proxy: Some("http://u:p@proxy:3128".into()),
        no_proxy: Some("git.internal".to_owned()),
    };
    assert!(!format!("{proxy:?}").contains("u:p"));
    let mut found = variables(proxy).await;
    found.sort();
    let expected = ["HTTPS_PROXY=http://u:p@proxy:3128", "NO_PROXY=git.internal"];
    assert_eq!(found, expected);
}
