//! HTTP probes of a container.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context;
use fairlead_testkit::raw::RawClient;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::text;
use crate::{admin::in_net, netns::NetNs};

/// Limit of a probe's period: a test does not wait for longer ones.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// A probe and its results.
#[derive(Debug)]
pub(super) struct Probe {
    path: String,
    port: u16,
    period: Duration,
    time_limit: Duration,
    limit: u64,
    failures: u64,
    next: Instant,
    /// True after the last success, until the limit of failures.
    pub(super) succeeds: bool,
}

impl Probe {
    /// The probe of this field; `None` without one.
    ///
    /// # Errors
    /// It is no HTTP probe of a known port.
    pub(super) fn of(container: &Value, name: &str) -> anyhow::Result<Option<Self>> {
        let Some(probe) = container.get(name) else {
            return Ok(None);
        };
        let port = probe.pointer("/httpGet/port");
        let port = match port.and_then(Value::as_str) {
            Some(name) => named_port(container, name),
            None => port.and_then(Value::as_u64),
        };
        let number =
            |field: &str, default| probe.get(field).and_then(Value::as_u64).unwrap_or(default);
        Ok(Some(Self {
            path: text(probe, "/httpGet/path").to_owned(),
            port: u16::try_from(port.context("no port")?)?,
            period: Duration::from_secs(number("periodSeconds", 10)).min(PERIOD_MAX),
            time_limit: Duration::from_secs(number("timeoutSeconds", 1)),
            limit: number("failureThreshold", 3),
            failures: 0,
            next: Instant::now(),
            succeeds: false,
        }))
    }

    /// Runs the probe if it is due.
    pub(super) async fn run_if_due(&mut self, net: &NetNs) {
        if Instant::now() < self.next {
            return;
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let client = in_net(RawClient::plain(address), net);
        let request = format!("GET {} HTTP/1.1\r\nHost: {address}\r\n\r\n", self.path);
        let answer = timeout(self.time_limit, client.send(request)).await;
        let is_good = matches!(answer, Ok(Ok(answer)) if (200..400).contains(&answer.status));
        self.next = Instant::now() + self.period;
        if is_good {
            (self.failures, self.succeeds) = (0, true);
        } else {
            self.failures += 1;
            self.succeeds &= !self.has_failed();
        }
    }

    /// True once the limit of failures in a row is reached.
    pub(super) fn has_failed(&self) -> bool {
        self.failures >= self.limit
    }
}

fn named_port(container: &Value, name: &str) -> Option<u64> {
    let ports = container.get("ports").and_then(Value::as_array)?;
    let port = ports.iter().find(|it| it["name"] == name)?;
    port.get("containerPort").and_then(Value::as_u64)
}
