//! Wait budget of requests to a cluster without a session.
//!
//! A cluster that has just been lost is likely to return soon: its link reconnects, its agent or the hub restarts.
//! Requests wait for it instead of failing. A watch fails at once: its client has a retry of its own.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    ClusterId, Code, Failure,
    moment::timestamp,
    resources::{ClusterState, ClusterStatus},
    streaming::is_streaming,
};
use http::uri::PathAndQuery;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    entry::{Running, SessionEntry},
    group::DownSessions,
    table::Acquired,
};
use crate::{
    hub::Hub,
    hubs::{
        links::{HubRoute, LinkReport},
        refused::RefusedHubs,
    },
};

const MAX_WAIT: Duration = Duration::from_secs(20);
/// Wait for a cluster that has been away for longer than [`MAX_WAIT`].
const MIN_WAIT: Duration = Duration::from_secs(1);
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Interval of looks for another hub with a session.
const HUB_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Wait budget without a timeout of the client: the answer comes within [`MAX_WAIT`].
const DEFAULT_BUDGET: Duration = MAX_WAIT.saturating_sub(CLIENT_MARGIN);
/// Maximum time by which the answer precedes the client's own timeout; a quarter of that timeout if less. An answer at
/// the very timeout is too late.
const CLIENT_MARGIN: Duration = Duration::from_millis(500);

/// Wait budget of a request: a little less than the client's own timeout; none for a watch.
pub(crate) fn wait_budget(path: &PathAndQuery) -> Duration {
    if is_streaming(path.path(), path.query()) {
        return Duration::ZERO;
    }
    let Some(query) = path.query() else {
        return DEFAULT_BUDGET;
    };
    let mut parameters = query.split('&');
    parameters
        .find_map(|one| go_duration(one.strip_prefix("timeout=")?).filter(|own| !own.is_zero()))
        .map_or(DEFAULT_BUDGET, |own| {
            (own - CLIENT_MARGIN.min(own / 4)).min(DEFAULT_BUDGET)
        })
}

/// Time from the arrival of a request to its answer while its session is in doubt.
pub(crate) fn answer_budget(wait: Duration) -> Duration {
    // A watch in flight continues after a short cut, although a new one does not wait.
    match wait.is_zero() {
        true => DEFAULT_BUDGET,
        false => wait,
    }
}

/// Parses a duration of Go, the format of kubectl's `--request-timeout`: `1.5s`, `1m30s`, `500ms`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(unit);
        let number: f64 = number.parse().ok()?;
        let (unit, behind) = behind.split_at(
            behind
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(behind.len()),
        );
        let seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = behind;
    }
    Some(total)
}

/// Place for one request: a session of this hub, or another hub.
pub(crate) enum Place {
    Session(Arc<SessionEntry>, Running),
    Hub(HubRoute),
}

/// Acquires the best place for one request: a session here, else another hub. Waits within the budget for one with a link.
/// `waited` gets the time of such a wait.
///
/// # Errors
/// `FL-1402` if the cluster stays away, `FL-1408` or `FL-1409` if another hub has its session, `FL-1401` if it has never
/// connected, `FL-1301` if it was deleted meanwhile, `FL-1403` as for
/// [`SessionTable::acquire`](super::table::SessionTable::acquire).
pub(crate) async fn acquire(
    hub: &Hub,
    cluster: &ClusterId,
    budget: Duration,
    waited: impl FnOnce(Duration),
) -> Result<Place, Failure> {
    match hub.sessions.acquire(cluster)? {
        Acquired::Up(entry, running) if !hub.process.is_draining() => {
            Ok(Place::Session(entry, running))
        }
        // Boxed, because it happens seldom.
        acquired => {
            let (began, refused) = (Instant::now(), RefusedHubs::default());
            let place = wait_for_place(hub, cluster, budget, acquired, Some(&refused));
            let place = Box::pin(place).await;
            waited(began.elapsed());
            place
        }
    }
}

/// As [`acquire`], for a request that some hubs have refused.
///
/// # Errors
/// As for [`acquire`].
pub(crate) async fn acquire_again(
    hub: &Hub,
    cluster: &ClusterId,
    budget: Duration,
    refused: &RefusedHubs,
) -> Result<Place, Failure> {
    let acquired = hub.sessions.acquire(cluster)?;
    Box::pin(wait_for_place(
        hub,
        cluster,
        budget,
        acquired,
        Some(refused),
    ))
    .await
}

/// As [`acquire`], for sessions of this hub only.
///
/// # Errors
/// As for [`acquire`].
pub(crate) async fn acquire_here(
    hub: &Hub,
    cluster: &ClusterId,
    budget: Duration,
) -> Result<(Arc<SessionEntry>, Running), Failure> {
    let acquired = hub.sessions.acquire(cluster)?;
    match Box::pin(wait_for_place(hub, cluster, budget, acquired, None)).await? {
        Place::Session(entry, running) => Ok((entry, running)),
        Place::Hub(_) => Err(Code::Internal.into()),
    }
}

/// `refused`: hubs that have refused the request; `None` for sessions of this hub only.
async fn wait_for_place(
    hub: &Hub,
    cluster: &ClusterId,
    budget: Duration,
    mut acquired: Acquired,
    refused: Option<&RefusedHubs>,
) -> Result<Place, Failure> {
    let began = Instant::now();
    loop {
        let is_up = matches!(acquired, Acquired::Up(..));
        // An agent leaves a draining hub, so its new session at another one is the safer one.
        let elsewhere = refused.filter(|_| !is_up || hub.process.is_draining());
        if let Some(route) = elsewhere.and_then(|it| other_hub(hub, cluster, is_up, it)) {
            return Ok(Place::Hub(route));
        }
        // A link to another hub, or its session of the cluster, may come at any moment.
        let poll = match refused.is_some() && !hub.links.is_empty() {
            true => HUB_POLL_INTERVAL,
            false => MAX_WAIT,
        };
        match acquired {
            Acquired::Up(entry, running) => return Ok(Place::Session(entry, running)),
            Acquired::Down(mut down) => {
                let away = match down.silence() {
                    Some(_) => MAX_WAIT,
                    None => down
                        .since()
                        .map_or(Duration::ZERO, |(since, _)| since.elapsed()),
                };
                let until = began + bounded(budget, away);
                let pause = until.min(Instant::now() + poll);
                let waited = timeout_at(pause, down.wait()).await;
                if waited.is_err() && pause == until {
                    return Err(no_link(&down));
                }
                // A session that has ended stays in the table until its own task has run.
                sleep(RETRY_INTERVAL).await;
            }
            Acquired::Absent(first_session) => {
                let (failure, away) = no_session(hub, cluster, refused).await?;
                let until = began + bounded(budget, away);
                let pause = until.min(Instant::now() + poll);
                let waited = timeout_at(pause, first_session.wait()).await;
                if waited.is_err() && pause == until {
                    return Err(failure);
                }
            }
        }
        acquired = hub.sessions.acquire(cluster)?;
    }
}

/// Another hub; with a session here (`is_up`), only for a cluster that has one elsewhere by the list.
fn other_hub(
    hub: &Hub,
    cluster: &ClusterId,
    is_up: bool,
    refused: &RefusedHubs,
) -> Option<HubRoute> {
    if hub.links.is_empty() {
        return None;
    }
    let listed = hub.seam.directory.hubs_with_session(cluster);
    if is_up && listed.is_empty() {
        return None;
    }
    hub.links.choose(&listed, refused)
}

/// A cluster that has been away for long will hardly return just now.
fn bounded(budget: Duration, away: Duration) -> Duration {
    budget.min(MAX_WAIT.saturating_sub(away).max(MIN_WAIT))
}

fn no_link(down: &DownSessions) -> Failure {
    if let Some(silence) = down.silence() {
        return silence.lost_failure();
    }
    let Some((since, last_error)) = down.since() else {
        return Failure::new(Code::Lost);
    };
    let since = OffsetDateTime::now_utc() - since.elapsed();
    let since = timestamp(since);
    let code = Code::SessionBroke;
    Failure::because(
        Code::Lost,
        format_args!("since {since}, last error {code}: {last_error}"),
    )
}

/// The failure for a cluster without a session, and the time since its loss or since the start of the hub.
///
/// # Errors
/// Failures that waiting does not change.
async fn no_session(
    hub: &Hub,
    cluster: &ClusterId,
    refused: Option<&RefusedHubs>,
) -> Result<(Failure, Duration), Failure> {
    let status = hub.seam.directory.last_status(cluster).await?;
    let status = status.ok_or(Code::NoSuchCluster)?;
    if status.state == ClusterState::Never {
        return Err(Code::NeverConnected.into());
    }
    let listed = hub.seam.directory.hubs_with_session(cluster);
    let reported = listed
        .iter()
        .find_map(|id| Some((id, hub.links.report(id)?)));
    if let Some((id, LinkReport { url, down })) = reported {
        return Ok(match down {
            Some((since, error)) => {
                let cause = format_args!("{url}: {error}");
                (Failure::because(Code::OtherHub, cause), since.elapsed())
            }
            // The list lags behind: the agent is on its way to some hub.
            None if refused.is_some_and(|it| it.contains(id)) => (
                Failure::because(Code::HubWithoutSession, url),
                Duration::ZERO,
            ),
            None => (Failure::because(Code::OtherHub, url), Duration::ZERO),
        });
    }
    if let Some(url) = hub.seam.directory.other_hub(cluster) {
        // Its agent may be moving to this hub, but hardly is.
        return Ok((Failure::because(Code::OtherHub, url), MAX_WAIT));
    }
    let away = time_away(&status, OffsetDateTime::now_utc());
    Ok((lost_failure(&status), away))
}

/// Time since the loss of a cluster without a session at any live hub.
fn time_away(status: &ClusterStatus, now: OffsetDateTime) -> Duration {
    match status.state {
        // Its hub has just ended, and the other hubs have not noticed yet: `since` is the start of its session.
        ClusterState::Connected | ClusterState::ApiUnreachable => Duration::ZERO,
        _ => (now - status.since).try_into().unwrap_or_default(),
    }
}

fn lost_failure(status: &ClusterStatus) -> Failure {
    let since = timestamp(status.since);
    let what = match (status.state, &status.last_error) {
        (ClusterState::Lost, Some(last)) => {
            format!("since {since}, last error {}: {}", last.code, last.cause)
        }
        (ClusterState::Lost, None) => format!("since {since}"),
        // The store has the status of a session that ended with an earlier hub.
        _ => format!("it was last seen as {} since {since}", status.state),
    };
    Failure::because(Code::Lost, what).next(status.next_step_if_lost())
}

#[cfg(test)]
mod tests;
