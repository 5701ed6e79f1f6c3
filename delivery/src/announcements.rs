//! Announcements of changed deliveries: the gateway's probes carry the ETag of each cluster, and changed ones are probed at
//! once, spread over time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use fairlead_api::ClusterId;
use fairlead_registry::DesiredDeliveries;
use tokio::{
    sync::{Notify, broadcast},
    time::sleep,
};

/// Capacity of the notification queue of a slow subscriber.
const CHANGE_QUEUE_CAPACITY: usize = 4096;
/// Interval of notifications while some wait.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);
/// Notifications per interval: 2,000 a second.
const MIN_NOTIFICATIONS: usize = 20;
/// Intervals within which all waiting notifications are sent: five seconds.
const MAX_INTERVALS: usize = 500;

/// ETags of desired deliveries, and clusters whose agents must be notified.
#[derive(Debug)]
pub struct Announcements {
    etags: RwLock<HashMap<ClusterId, Arc<str>>>,
    waiting: Mutex<WaitingNotifications>,
    wake: Notify,
    changed: broadcast::Sender<ClusterId>,
}

#[derive(Debug, Default)]
struct WaitingNotifications {
    order: VecDeque<ClusterId>,
    members: HashSet<ClusterId>,
}

impl Default for Announcements {
    fn default() -> Self {
        Announcements {
            etags: RwLock::default(),
            waiting: Mutex::default(),
            wake: Notify::new(),
            changed: broadcast::Sender::new(CHANGE_QUEUE_CAPACITY),
        }
    }
}

impl DesiredDeliveries for Announcements {
    fn etag(&self, cluster: &ClusterId) -> Option<Arc<str>> {
        let etags = self.etags.read().unwrap_or_else(PoisonError::into_inner);
        etags.get(cluster).cloned()
    }

    fn changed(&self) -> broadcast::Receiver<ClusterId> {
        self.changed.subscribe()
    }
}

impl Announcements {
    /// Replaces the ETags of clusters. Agents are notified of other ETags than before.
    pub fn publish(&self, etags: impl IntoIterator<Item = (ClusterId, Option<Arc<str>>)>) {
        let mut known = self.etags.write().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.waiting();
        for (cluster, etag) in etags {
            let Some(etag) = etag else {
                known.remove(&cluster);
                continue;
            };
            let before = known.insert(cluster.clone(), Arc::clone(&etag));
            // An agent learns of the first one by its next probe: at the start of a hub all are new.
            if before.is_some_and(|it| it != etag) && waiting.members.insert(cluster.clone()) {
                waiting.order.push_back(cluster);
            }
        }
        if !waiting.order.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Sends notifications for ever, at most 2,000 a second, or all that wait within five seconds.
    pub async fn notify(&self) {
        loop {
            self.wake.notified().await;
            let mut per_interval = MIN_NOTIFICATIONS;
            loop {
                let batch = {
                    let mut waiting = self.waiting();
                    let share = waiting.order.len().div_ceil(MAX_INTERVALS);
                    per_interval = per_interval.max(share);
                    let size = per_interval.min(waiting.order.len());
                    let batch: Vec<ClusterId> = waiting.order.drain(..size).collect();
                    for cluster in &batch {
                        waiting.members.remove(cluster);
                    }
                    batch
                };
                if batch.is_empty() {
                    break;
                }
                for cluster in batch {
                    // Fails without subscribers, which is fine.
                    let _ = self.changed.send(cluster);
                }
                sleep(NOTIFY_INTERVAL).await;
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingNotifications> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    fn cluster(number: usize) -> ClusterId {
        format!("c-{number}").parse().unwrap()
    }

    fn publish(announcements: &Announcements, clusters: usize, etag: &str) {
        let etags = (0..clusters).map(|it| (cluster(it), Some(etag.into())));
        announcements.publish(etags);
    }

    /// Time until this number of notifications was sent.
    async fn spread(clusters: usize) -> Duration {
        let announcements = Arc::new(Announcements::default());
        publish(&announcements, clusters, "a");
        let mut changed = announcements.changed();
        publish(&announcements, clusters, "b");
        publish(&announcements, clusters, "c");
        let sender = Arc::clone(&announcements);
        let sender = tokio::spawn(async move { sender.notify().await });
        let start = Instant::now();
        for number in 0..clusters {
            assert_eq!(changed.recv().await.unwrap(), cluster(number));
        }
        let took = start.elapsed();
        let further = timeout(Duration::from_secs(60), changed.recv()).await;
        assert!(further.is_err(), "each cluster is notified once");
        sender.abort();
        took
    }

    #[tokio::test(start_paused = true)]
    async fn notifications_are_spread_over_five_seconds_at_most() {
        for (clusters, millis) in [(1, 0), (200, 90), (2_000, 990), (20_000, 4_990)] {
            let took = spread(clusters).await.as_millis();
            assert!(took.abs_diff(millis) <= 600, "{clusters}: {took} ms");
        }
    }

    #[test]
    fn first_and_equal_etags_notify_nobody() {
        let announcements = Announcements::default();
        let mut changed = announcements.changed();
        publish(&announcements, 3, "a");
        publish(&announcements, 3, "a");
        announcements.publish([(cluster(0), None)]);
        assert_eq!(announcements.etag(&cluster(0)), None);
        assert_eq!(announcements.etag(&cluster(1)).as_deref(), Some("a"));
        assert!(announcements.waiting().order.is_empty());
        assert!(changed.try_recv().is_err());
    }
}
