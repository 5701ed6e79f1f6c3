use super::*;

#[test]
fn last_allowed_core_is_read_from_a_list_of_ranges() {
    assert_eq!(
        last_in_list("Name:\tx\nCpus_allowed_list:\t0-3,7\n"),
        Some(7)
    );
    assert_eq!(last_in_list("Cpus_allowed_list:\t0-1\n"), Some(1));
    assert_eq!(last_in_list("Cpus_allowed_list:\t5\n"), Some(5));
    assert_eq!(last_in_list("Name:\tx\n"), None);
}

#[tokio::test]
async fn role_that_ends_early_is_reported_with_the_end_of_its_log() {
    let dir = tempfile::TempDir::new().unwrap();
    let launcher = Launcher::new(false, None, dir.path().to_owned())
        .await
        .unwrap();
    let spec = Spec::new("luckless", "sh").args(["-c", "echo no such luck >&2; exit 3"]);
    let mut role = launcher.run(&spec).unwrap();
    let error = role
        .ready::<serde_json::Value>(&dir.path().join("ready.json"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("exit status: 3")
            && error.contains("luckless.log")
            && error.contains("no such luck"),
        "{error}"
    );
}
