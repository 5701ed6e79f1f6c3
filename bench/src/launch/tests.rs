use super::*;

async fn unpinned(logs: &tempfile::TempDir) -> Launcher {
    let logs = logs.path().to_owned();
    Launcher::new(false, None, logs).await.unwrap()
}

#[test]
fn allowed_cores_are_read_from_a_list_of_ranges() {
    let listed = |list: &str| listed_cores(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
    assert_eq!(listed("0-3,7"), Some(vec![0, 1, 2, 3, 7]));
    assert_eq!(listed("5"), Some(vec![5]));
    assert_eq!(listed(""), None);
    assert_eq!(listed_cores("Name:\tx\n"), None);
}

#[tokio::test]
async fn another_core_is_one_that_this_process_may_use() {
    let dir = tempfile::TempDir::new().unwrap();
    let allowed = allowed_cores().unwrap();
    let first = allowed.first().copied();
    let one = Launcher::new(true, first, dir.path().to_owned())
        .await
        .unwrap();
    assert_eq!(one.core(), first);
    match one.with_another_core() {
        Ok(two) => {
            assert_eq!((two.cores.len(), two.core()), (2, None));
            assert_ne!(two.cores.first(), two.cores.last());
            assert!(two.cores.iter().all(|core| allowed.contains(core)));
        }
        Err(error) => assert_eq!(
            (allowed.len(), error.to_string().contains("one core")),
            (1, true)
        ),
    }
}

#[tokio::test]
async fn role_that_ends_early_is_reported_with_the_end_of_its_log() {
    let dir = tempfile::TempDir::new().unwrap();
    let launcher = unpinned(&dir).await;
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

#[tokio::test]
async fn role_starts_in_the_network_of_its_side() {
    let dir = tempfile::TempDir::new().unwrap();
    let launcher = unpinned(&dir).await;
    let entrance = |side: &str| ["env".into(), format!("SIDE={side}").into()].into();
    let launcher = launcher.between(Sides {
        hub: entrance("hub"),
        site: entrance("site"),
    });
    let tell = |name: &str| Spec::new(name, "sh").args(["-c", "printf %s $SIDE > $0"]);
    for (spec, side) in [(tell("near"), "hub"), (tell("far").at_site(), "site")] {
        let told = dir.path().join(side);
        let mut role = launcher.run(&spec.arg(&told)).unwrap();
        let status = role.process.wait(READY_DEADLINE).await.unwrap();
        assert!(status.success(), "{side}: {status}");
        assert_eq!(std::fs::read_to_string(&told).unwrap(), side);
    }
}
