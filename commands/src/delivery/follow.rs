//! Follows a rollout to its end.

use std::time::Duration;

use fairlead_api::{
    BundleId, Code, Failure,
    delivery::{Rollout, RolloutState, WaveStatus},
    resources::List,
};
use fairlead_client::{HubClient, HubError, query_of};
use tokio::time::{Instant, sleep};

use super::progress::Progress;
use crate::output;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A rollout to wait for.
pub(super) struct Following {
    pub(super) bundle: BundleId,
    pub(super) generation: u64,
    pub(super) within: Duration,
}

/// Rollouts of a bundle, latest first.
pub(super) async fn rollouts(hub: &HubClient, bundle: &BundleId) -> Result<Vec<Rollout>, HubError> {
    let query = query_of([("bundle", Some(bundle.as_str()))]);
    let found: List<Rollout> = hub.get(&format!("/v1/rollouts?{query}")).await?;
    let mut found: Vec<_> = found
        .items
        .into_iter()
        .filter(|it| it.bundle == *bundle)
        .collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.to));
    Ok(found)
}

/// Shows the progress of a rollout until it stops.
///
/// # Errors
/// `FL-4126` if it halts, is aborted or replaced; `FL-4113` if it is not done in time.
pub(super) async fn to_the_end(hub: &HubClient, following: &Following) -> Result<(), Failure> {
    let Following {
        bundle,
        generation,
        within,
    } = following;
    let newest = async || {
        let found = rollouts(hub, bundle).await?;
        // A newer generation replaces the awaited one.
        Ok(found.into_iter().find(|it| it.to == *generation))
    };
    let rollout = until_stopped(newest, *within, bundle).await?;
    let summary = summary(&rollout);
    output::print(&format!("{bundle} generation {generation}: {summary}.\n"))?;
    Ok(())
}

/// Polls until the rollout is done; `fetch` returns `None` before its start.
///
/// # Errors
/// As [`to_the_end`].
pub(super) async fn until_stopped(
    fetch: impl AsyncFn() -> Result<Option<Rollout>, HubError>,
    within: Duration,
    bundle: &BundleId,
) -> Result<Rollout, Failure> {
    let deadline = Instant::now() + within;
    let mut progress = Progress::new();
    loop {
        let step = match fetch().await {
            Ok(Some(rollout)) => {
                progress.show(&rollout);
                if rollout.state == RolloutState::Done {
                    progress.end();
                    return Ok(rollout);
                }
                if let Some(failure) = stopped(&rollout) {
                    progress.end();
                    return Err(failure);
                }
                match &rollout.reason {
                    Some(reason) => reason.clone(),
                    None => summary(&rollout),
                }
            }
            Ok(None) => "its rollout has not started".to_owned(),
            // The hub may be restarting; the rollout continues with it.
            Err(error) if error.is_temporary() => error.failure().cause.clone(),
            Err(error) => return Err(error.into()),
        };
        if Instant::now() >= deadline {
            progress.end();
            let next =
                format!("It continues; follow it with `fairlead rollout status {bundle} -w`.");
            let failure = Failure::because(Code::NotReady, format_args!("{bundle}: {step}"));
            return Err(failure.next(next));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Failure of a rollout that stopped before its end.
pub(super) fn stopped(rollout: &Rollout) -> Option<Failure> {
    let Rollout { bundle, id, .. } = rollout;
    let next = match rollout.state {
        RolloutState::Running | RolloutState::Paused | RolloutState::Done => return None,
        RolloutState::Halted => format!(
            "Correct the content and deploy again, go back with `fairlead rollback {bundle}`, or continue with `fairlead rollout resume {id}`."
        ),
        RolloutState::Aborted => {
            format!("Deploy again, or go back with `fairlead rollback {bundle}`.")
        }
        RolloutState::Superseded => {
            format!("Follow the newer one with `fairlead rollout status {bundle} -w`.")
        }
    };
    let state = format!("{:?}", rollout.state).to_lowercase();
    let reason = rollout.reason.as_ref();
    let reason = reason.map_or_else(|| summary(rollout), Clone::clone);
    let cause = format!("the rollout {id} is {state}: {reason}");
    Some(Failure::with_cause(Code::RolloutStopped, cause).next(next))
}

/// Number of clusters by progress, of all waves.
pub(super) fn summary(rollout: &Rollout) -> String {
    let sum = |of: fn(&WaveStatus) -> u32| rollout.waves.iter().map(of).sum::<u32>();
    let (all, ready) = (sum(|it| it.clusters), sum(|it| it.ready));
    let mut text = format!("{ready} of {all} clusters are ready");
    for (count, what) in [
        (sum(|it| it.failed), "failed"),
        (sum(|it| it.offline), "offline"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;

    use serde_json::{Value, json};

    use super::*;

    pub(in crate::delivery) fn rollout(state: &str, waves: &Value) -> Rollout {
        serde_json::from_value(json!({
            "id": "r-shop-8", "bundle": "b-shop", "from": 7, "to": 8, "state": state, "waves": waves,
        }))
        .unwrap()
    }

    pub(in crate::delivery) fn waves(ready: u32) -> Value {
        json!([
            { "name": "canary", "state": "Done", "clusters": 1, "ready": 1, "failed": 0, "offline": 0, "inProgress": 0 },
            { "name": "rest", "state": "Running", "clusters": 9, "ready": ready, "failed": 1, "offline": 2, "inProgress": 1 },
        ])
    }

    async fn followed(states: &[&str]) -> Result<Rollout, Failure> {
        let left = RefCell::new(states.iter());
        let last = RefCell::new(None);
        let fetch = async || {
            if let Some(state) = left.borrow_mut().next() {
                *last.borrow_mut() = (*state != "None").then(|| rollout(state, &waves(3)));
            }
            Ok(last.borrow().clone())
        };
        until_stopped(fetch, Duration::from_secs(60), &"b-shop".parse().unwrap()).await
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_is_followed_from_its_start_to_its_end() {
        let done = followed(&["None", "Running", "Paused", "Running", "Done"]).await;
        assert_eq!(done.unwrap().state, RolloutState::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_that_stops_has_its_own_code_and_next_step() {
        for (state, next) in [
            ("Halted", "fairlead rollback b-shop"),
            ("Aborted", "Deploy again"),
            ("Superseded", "rollout status b-shop -w"),
        ] {
            let failure = followed(&["Running", state]).await.unwrap_err();
            assert_eq!(failure.code, Code::RolloutStopped);
            assert!(failure.next_step().contains(next), "{failure:?}");
            assert!(
                failure
                    .cause
                    .contains("4 of 10 clusters are ready, 1 failed, 2 offline"),
                "{failure:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_that_is_not_done_in_time_continues() {
        for state in ["None", "Running"] {
            let failure = followed(&[state]).await.unwrap_err();
            assert_eq!(failure.code, Code::NotReady);
            assert!(failure.next_step().contains("It continues"), "{failure:?}");
        }
    }
}
