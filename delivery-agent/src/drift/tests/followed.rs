//! Edits, corrections, fights.

use fairlead_api::Code;

use super::*;

#[tokio::test(start_paused = true)]
async fn edit_is_reported_in_two_seconds_and_corrected_in_ten() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    let start = Instant::now();
    rig.edit_map("9");
    assert_eq!(
        rig.drift().await,
        ["ConfigMap shop/web .data.a kubectl-edit"]
    );
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(rig.corrected().await, 1);
    let elapsed = start.elapsed();
    assert!((5..10).contains(&elapsed.as_secs()), "{elapsed:?}");
    assert_eq!(rig.value(), "1");
    assert_eq!(
        *rig.cluster.sentences.lock().unwrap(),
        ["corrected 1 object"]
    );
    let ended = rig.next(|event| match event {
        DriftEvent::Drifted { objects, failure } => Some(objects.is_empty() && failure.is_none()),
        _ => None,
    });
    assert!(ended.await);
    // The event of our own apply is no reason for another comparison.
    rig.settle().await;
    assert_eq!(rig.corrections(), 1);
}

#[tokio::test(start_paused = true)]
async fn further_edits_delay_a_correction_but_not_for_ever() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    let start = Instant::now();
    for edit in 0..40 {
        rig.edit_map(&format!("x{edit}"));
        sleep(Duration::from_secs(1)).await;
        if rig.corrections() > 0 {
            break;
        }
    }
    let elapsed = start.elapsed().as_secs();
    assert!((30..33).contains(&elapsed), "{elapsed}");
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn stopped_correction_shows_the_drift_and_writes_nothing() {
    for policy in [DriftPolicy::Correct, DriftPolicy::Repair] {
        let mut rig = Rig::start(policy).await;
        rig.follow_with(policy, true).await;
        rig.settle().await;
        rig.edit_map("9");
        assert_eq!(
            rig.drift().await,
            ["ConfigMap shop/web .data.a kubectl-edit"]
        );
        sleep(Duration::from_secs(3600)).await;
        assert_eq!((rig.corrections(), rig.value()), (0, "9".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn report_shows_and_writes_nothing() {
    let mut rig = Rig::start(DriftPolicy::Report).await;
    rig.settle().await;
    rig.edit_map("9");
    let failure = rig.next(|event| match event {
        DriftEvent::Drifted { failure, .. } => failure.clone(),
        _ => None,
    });
    let failure = failure.await;
    assert_eq!(failure.code, Code::DriftFound);
    assert_eq!(
        failure.cause,
        "ConfigMap shop/web differs in .data.a; kubectl-edit changed it"
    );
    sleep(Duration::from_secs(300)).await;
    assert_eq!((rig.value(), rig.corrections()), (json!("9"), 0));
    // Somebody changes it back: no drift, and still no write.
    rig.edit_map("1");
    let ended = rig.next(|event| match event {
        DriftEvent::Drifted { objects, .. } => Some(objects.is_empty()),
        _ => None,
    });
    assert!(ended.await);
    // The owner has changed, so that the next edit is seen by its fingerprint.
    rig.edit_map("7");
    assert_eq!(rig.drift().await.len(), 1);
    let requests = rig.cluster.take_requests();
    assert!(
        !requests.iter().any(|it| it.starts_with("apply")),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn ignore_compares_nothing() {
    let mut rig = Rig::start(DriftPolicy::Ignore).await;
    rig.settle().await;
    rig.edit_map("9");
    rig.cluster.remove(WEB);
    sleep(Duration::from_secs(4000)).await;
    let requests = rig.cluster.take_requests();
    assert!(
        !requests
            .iter()
            .any(|it| it.contains("run") || it.starts_with("apply")),
        "{requests:?}"
    );
    while let Ok(report) = rig.events.try_recv() {
        assert!(
            matches!(report.event, DriftEvent::HealthChanged(_)),
            "{report:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_object_is_made_again() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster.remove(MAP);
    assert_eq!(rig.drift().await, ["ConfigMap shop/web  nobody"]);
    assert_eq!(rig.corrected().await, 1);
    assert_eq!(rig.value(), "1");
}

#[tokio::test(start_paused = true)]
async fn ownership_that_was_lost_is_taken_back_silently() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.edit_map("9");
    rig.edit_map("1");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.corrections(), 1);
    while let Ok(report) = rig.events.try_recv() {
        let is_silent = match &report.event {
            DriftEvent::Corrected { objects, .. } => objects.is_empty(),
            DriftEvent::BesideChanged(_) => true,
            _ => false,
        };
        assert!(is_silent, "{report:?}");
    }
    // Otherwise this edit would stay unseen.
    rig.edit_map("5");
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn fight_is_blocked_until_the_next_run() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    for edit in 0..5 {
        rig.edit_map(&format!("x{edit}"));
        assert_eq!(rig.corrected().await, 1);
    }
    rig.edit_map("y");
    let blocked = rig.next(|event| match event {
        DriftEvent::Blocked(failure) => failure.clone(),
        _ => None,
    });
    let blocked = blocked.await;
    assert_eq!(blocked.code, Code::DriftFight);
    assert_eq!(
        blocked.cause,
        "kubectl-edit and this bundle fight over .data.a of ConfigMap shop/web"
    );
    sleep(Duration::from_secs(7200)).await;
    assert_eq!((rig.value(), rig.corrections()), (json!("y"), 5));
    // A person decides: the engine runs the deployment, and hands it over again.
    rig.follow(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.edit_map("z");
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_blocked_difference_is_noticed() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    for edit in 0..6 {
        rig.edit_map(&format!("x{edit}"));
        sleep(Duration::from_secs(10)).await;
    }
    rig.edit_map("1");
    let unblocked = rig.next(|event| match event {
        DriftEvent::Blocked(None) => Some(()),
        _ => None,
    });
    unblocked.await;
}

#[tokio::test(start_paused = true)]
async fn correction_waits_for_another_run() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster.is_busy.store(true, Ordering::SeqCst);
    rig.edit_map("9");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.value(), "9");
    rig.cluster.is_busy.store(false, Ordering::SeqCst);
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn refused_correction_is_reported_and_tried_again() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster.set_fault(|verb, _| {
        let message = "configmaps \"web\" is forbidden: exceeded quota: objects, used: 5";
        (verb == "apply").then(|| refused(403, message))
    });
    rig.edit_map("9");
    let failure = rig.next(|event| match event {
        DriftEvent::Drifted {
            failure: Some(failure),
            ..
        } if failure.code == Code::DriftRefused => Some(failure.clone()),
        _ => None,
    });
    assert!(
        failure
            .await
            .cause
            .starts_with("ConfigMap shop/web exceeds quota objects")
    );
    rig.cluster.clear_fault();
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn release_ends_corrections_and_events() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.edit_map("9");
    rig.drift().await;
    rig.monitor.release(&"b-shop".parse().unwrap()).await;
    while rig.events.try_recv().is_ok() {}
    rig.edit_map("8");
    sleep(Duration::from_secs(7200)).await;
    assert!(rig.events.try_recv().is_err());
    assert_eq!((rig.value(), rig.corrections()), (json!("8"), 0));
}

#[tokio::test(start_paused = true)]
async fn object_of_another_bundle_is_not_taken_back() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    let mut adopted = config_map();
    adopted["metadata"]["labels"]["fairlead/bundle"] = json!("b-other");
    adopted["data"]["a"] = json!("3");
    rig.cluster.apply_now(MAP, "fairlead/b-other", &adopted);
    let blocked = rig.next(|event| match event {
        DriftEvent::Blocked(failure) => failure.clone(),
        _ => None,
    });
    let blocked = blocked.await;
    assert_eq!(blocked.code, Code::DriftTakenOver);
    assert_eq!(
        blocked.cause,
        "bundle b-other has taken over ConfigMap shop/web"
    );
    sleep(Duration::from_secs(7200)).await;
    assert_eq!(rig.value(), "3");
}

#[tokio::test(start_paused = true)]
async fn fields_beside_are_listed_with_their_manager() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster
        .edit(MAP, "injector", |it| it["data"]["extra"] = json!("1"));
    let beside = rig.next(|event| match event {
        DriftEvent::BesideChanged(objects) => Some(objects.clone()),
        _ => None,
    });
    let beside = beside.await;
    assert_eq!(beside[0].fields, [".data.extra"]);
    assert_eq!(beside[0].manager.as_deref(), Some("injector"));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.corrections(), 0);
}

#[tokio::test(start_paused = true)]
async fn field_that_differs_is_not_listed_beside() {
    let mut rig = Rig::start(DriftPolicy::Report).await;
    rig.settle().await;
    rig.edit_map("9");
    assert_eq!(rig.drift().await.len(), 1);
    rig.cluster
        .edit(MAP, "injector", |it| it["data"]["extra"] = json!("1"));
    let beside = rig.next(|event| match event {
        DriftEvent::BesideChanged(objects) => Some(objects.clone()),
        _ => None,
    });
    let fields: Vec<_> = beside.await.into_iter().flat_map(|it| it.fields).collect();
    assert_eq!(fields, [".data.extra"]);
}
