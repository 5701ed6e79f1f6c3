//! Metrics of deployments and rollouts by state, counted on a scrape after a change.

use std::sync::Mutex;

use fairlead_api::delivery::{DeploymentState, RolloutState};
use prometheus::{
    IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::fleet::{FleetHandle, WeakFleet};

/// Gauges by state.
pub(crate) struct DeliveryMetrics {
    /// Weak: the metrics registry may outlive the hub.
    fleet: WeakFleet,
    deployments: IntGaugeVec,
    rollouts: IntGaugeVec,
    /// Number of the last counted change.
    counted: Mutex<Option<u64>>,
}

impl DeliveryMetrics {
    /// Makes the metrics of a fleet.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(crate) fn new(fleet: &FleetHandle) -> prometheus::Result<Self> {
        let gauges = |name, help| IntGaugeVec::new(Opts::new(name, help), &["state"]);
        Ok(DeliveryMetrics {
            fleet: fleet.downgrade(),
            deployments: gauges("fairlead_deployments", "Bundles in clusters by state.")?,
            rollouts: gauges("fairlead_rollouts", "Newest rollouts of bundles by state.")?,
            counted: Mutex::new(None),
        })
    }

    fn count(&self) {
        let Some(fleet) = self.fleet.upgrade() else {
            return;
        };
        fleet.read_now(|fleet| {
            let states = RolloutState::ALL.into_iter().zip(fleet.count_rollouts());
            for (state, count) in states {
                let gauge = self.rollouts.with_label_values(&[state.as_str()]);
                gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            let last = Some(fleet.last_change());
            let Ok(mut counted) = self.counted.lock() else {
                return;
            };
            // There may be 500,000 deployments.
            if std::mem::replace(&mut *counted, last) == last {
                return;
            }
            let states = DeploymentState::ALL.into_iter().zip(fleet.count_states());
            for (state, count) in states {
                let gauge = self.deployments.with_label_values(&[state.as_str()]);
                gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        });
    }
}

impl Collector for DeliveryMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.deployments.desc();
        all.extend(self.rollouts.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count();
        let mut all = self.deployments.collect();
        all.extend(self.rollouts.collect());
        all
    }
}
