//! Leader among several agents of a cluster: the Lease `fairlead-delivery`. It chooses who works; the locks make it safe.

use std::time::Duration;

use serde_json::{Value, json};
use time::{OffsetDateTime, macros::format_description};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::{
    fence::DELIVERY_NAMESPACE,
    kube::{KubeClient, KubeError},
    process::ProcessIdentity,
};

const NAME: &str = "fairlead-delivery";
/// Time after which an unrenewed Lease is free.
const LEASE_SECONDS: u64 = 30;
/// Interval of renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);
/// Time without a renewal after which the leader stops. It is shorter than the lease.
const STOP_AFTER: Duration = Duration::from_secs(25);
/// Interval of looks at the Lease of another agent.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Lease of one process.
pub(crate) struct Lease {
    client: KubeClient,
    holder: String,
    /// The Lease as this process has written it last: a renewal needs no read.
    own: Option<Value>,
    /// Renewal of another holder, and the time at which this process saw it first.
    seen: Option<(Value, Instant)>,
}

impl Lease {
    pub(crate) fn new(client: KubeClient, process: &ProcessIdentity) -> Self {
        Self {
            client,
            holder: process.nonce().to_owned(),
            own: None,
            seen: None,
        }
    }

    /// Waits until this process is the leader.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => {
                    info!("delivery lease acquired");
                    return;
                }
                Ok(false) => debug!("delivery lease belongs to another agent"),
                Err(error) => warn!(%error, "delivery lease not acquired; retrying"),
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Renews the Lease until another agent has it, or until it cannot be renewed.
    pub(crate) async fn keep(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(RENEWAL_INTERVAL).await;
            let started = Instant::now();
            match tokio::time::timeout(RENEWAL_INTERVAL, self.attempt()).await {
                Ok(Ok(true)) => renewed = started,
                Ok(Ok(false)) => {
                    warn!("delivery lease lost to another agent");
                    return;
                }
                Ok(Err(error)) => warn!(%error, "delivery lease not renewed"),
                Err(_) => warn!("delivery lease not renewed in time"),
            }
            if renewed.elapsed() + RENEWAL_INTERVAL > STOP_AFTER + RENEWAL_INTERVAL {
                warn!("delivery stops: its lease could not be renewed");
                return;
            }
        }
    }

    /// Gives the Lease up, so that another agent need not wait for its end.
    pub(crate) async fn release(&mut self) {
        self.own = None;
        if let Ok(Some(lease)) = self.client.get(&path()).await
            && holder(&lease) == self.holder
        {
            let mut free = lease;
            set(&mut free, "holderIdentity", json!(""));
            let _ = self.client.replace(&path(), &free).await;
        }
    }

    /// Acquires or renews the Lease. False if another agent has it.
    async fn attempt(&mut self) -> Result<bool, KubeError> {
        if let Some(lease) = self.own.take() {
            match self.write(lease).await {
                // Another client has changed or deleted it: the answer is in the Lease itself.
                Ok(false) | Err(KubeError::Status { status: 404, .. }) => {}
                renewed => return renewed,
            }
        }
        let Some(lease) = self.client.get(&path()).await? else {
            let created = self.client.create(&collection(), &self.fresh()).await;
            return self.written(created);
        };
        let current = holder(&lease);
        if current != self.holder && !current.is_empty() && !self.is_expired(&lease) {
            return Ok(false);
        }
        self.write(lease).await
    }

    /// Writes the Lease as this process's own. False if its version is not the newest.
    async fn write(&mut self, mut lease: Value) -> Result<bool, KubeError> {
        let now = micro_time(OffsetDateTime::now_utc());
        if holder(&lease) != self.holder {
            set(&mut lease, "acquireTime", json!(now));
        }
        set(&mut lease, "holderIdentity", json!(self.holder));
        set(&mut lease, "leaseDurationSeconds", json!(LEASE_SECONDS));
        set(&mut lease, "renewTime", json!(now));
        let replaced = self.client.replace(&path(), &lease).await;
        self.written(replaced)
    }

    fn written(&mut self, answer: Result<Value, KubeError>) -> Result<bool, KubeError> {
        match answer {
            Ok(lease) => {
                self.own = Some(lease);
                Ok(true)
            }
            // Another agent was faster.
            Err(KubeError::Status { status: 409, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if the Lease was not renewed for its duration, by the clock of this process.
    fn is_expired(&mut self, lease: &Value) -> bool {
        let renewal = lease.get("spec").cloned().unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == renewal => {
                since.elapsed() > Duration::from_secs(LEASE_SECONDS)
            }
            _ => {
                self.seen = Some((renewal, Instant::now()));
                false
            }
        }
    }

    fn fresh(&self) -> Value {
        let now = micro_time(OffsetDateTime::now_utc());
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": NAME, "namespace": DELIVERY_NAMESPACE },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": now,
                "renewTime": now,
            },
        })
    }
}

fn collection() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{DELIVERY_NAMESPACE}/leases")
}

fn path() -> String {
    format!("{}/{NAME}", collection())
}

fn holder(lease: &Value) -> String {
    let holder = lease.pointer("/spec/holderIdentity");
    let holder = holder.and_then(Value::as_str);
    holder.unwrap_or_default().to_owned()
}

fn set(lease: &mut Value, field: &str, value: Value) {
    if let Some(Value::Object(spec)) = lease.get_mut("spec") {
        spec.insert(field.to_owned(), value);
    }
}

/// Time in the form of a Lease (`MicroTime`).
///
/// The API server refuses more or fewer than six digits behind the point, so zeros at the end must stay.
fn micro_time(at: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    // Formatting fails for formats with parts that a time lacks.
    at.format(format).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeApi;

    async fn api() -> FakeApi {
        let api = FakeApi::start().await;
        let namespace = json!({"metadata": {"name": "fairlead-delivery"}});
        api.put("/api/v1/namespaces/fairlead-delivery", namespace);
        api
    }

    fn lease(api: &FakeApi, pod: &str) -> Lease {
        Lease::new(api.client(), &ProcessIdentity::of_pod(pod))
    }

    #[test]
    fn time_of_a_lease_has_six_digits_behind_the_point() {
        for (nanoseconds, expected) in [
            (0, "2026-11-24T21:30:15.000000Z"),
            (166_190_999, "2026-11-24T21:30:15.166190Z"),
            (999_999_999, "2026-11-24T21:30:15.999999Z"),
        ] {
            let at = OffsetDateTime::from_unix_timestamp(1_795_555_815).unwrap();
            let at = at.replace_nanosecond(nanoseconds).unwrap();
            assert_eq!(micro_time(at), expected);
        }
    }

    #[tokio::test]
    async fn one_of_two_agents_leads_until_it_gives_the_lease_up() {
        let api = api().await;
        let (mut first, mut second) = (lease(&api, "a"), lease(&api, "b"));
        assert!(first.attempt().await.unwrap());
        assert!(!second.attempt().await.unwrap());
        assert!(first.attempt().await.unwrap(), "it renews");
        first.release().await;
        assert!(second.attempt().await.unwrap());
        assert!(!first.attempt().await.unwrap());
    }

    #[tokio::test]
    async fn renewal_is_one_request_until_another_client_writes_or_deletes_the_lease() {
        let api = api().await;
        let mut first = lease(&api, "a");
        assert!(first.attempt().await.unwrap());
        api.take_requests();
        for _ in 0..2 {
            assert!(first.attempt().await.unwrap());
        }
        let requests = api.take_requests();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert!(requests.iter().all(|it| it.starts_with("PUT")));

        let label = |it: &mut Value| {
            it["metadata"]["labels"] = json!({"a": "b"});
            it["metadata"]["resourceVersion"] = json!("labelled");
        };
        api.change(&path(), label);
        assert!(first.attempt().await.unwrap(), "it is still the holder");
        api.delete(&path());
        assert!(first.attempt().await.unwrap(), "it creates the Lease again");
        let other = |it: &mut Value| {
            it["spec"]["holderIdentity"] = json!("other");
            it["metadata"]["resourceVersion"] = json!("taken");
        };
        api.change(&path(), other);
        assert!(!first.attempt().await.unwrap());
    }

    #[tokio::test]
    async fn lease_without_renewal_is_free_by_the_clock_of_the_observer() {
        let api = api().await;
        let (mut first, mut second) = (lease(&api, "a"), lease(&api, "b"));
        assert!(first.attempt().await.unwrap());
        assert!(!second.attempt().await.unwrap());
        let earlier = Instant::now().checked_sub(Duration::from_secs(LEASE_SECONDS + 1));
        second.seen = second.seen.map(|(spec, _)| (spec, earlier.unwrap()));
        assert!(second.attempt().await.unwrap());
    }
}
