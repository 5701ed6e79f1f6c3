//! One container: its process, its probes, and its restarts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use fairlead_testkit::process::{Launch, Process};
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Shared, list,
    probe::Probe,
    root, text,
    volumes::{field, mounts},
};
use crate::netns::NetNs;

/// First delay before a restart; each further one is twice as long. A real kubelet begins with ten seconds.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(8);

/// State of a container's process.
#[derive(Debug)]
pub(super) enum State {
    Running(Process),
    /// It has ended with this code, and starts again at this time.
    Waiting {
        code: i64,
        until: Instant,
    },
}

/// A container with all that its process needs.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) restarts: u32,
    pub(super) state: State,
    launch: Launch,
    log: PathBuf,
    readiness: Option<Probe>,
    liveness: Option<Probe>,
    startup: Option<Probe>,
    spec: Value,
}

impl Container {
    /// Starts a container of the pod, with its volumes.
    ///
    /// # Errors
    /// Its spec needs something that the kubelet, the cluster or this machine does not have.
    pub(super) async fn start(
        shared: &Shared,
        pod: &Value,
        spec: &Value,
        (net, folder, log): (&NetNs, &Path, PathBuf),
        volumes: &BTreeMap<String, PathBuf>,
    ) -> anyhow::Result<Self> {
        let user = root::user(pod, spec)?;
        let mounts = mounts(spec, volumes)?;
        let name = text(spec, "/name").to_owned();
        let place = folder.join(format!("root-{name}"));
        std::fs::create_dir_all(&place)?;
        let image = shared.folder.join("image");
        let hosts = folder.join("hosts");
        let command = root::command(spec);
        let (program, arguments) = command.split_first().context("no command")?;
        let mut launch = Launch::new(program)
            .args(arguments)
            .inside(net)
            .behind(root::entrance(&place, &image, &hosts, user, &mounts));
        for (name, value) in variables(shared, pod, spec).await? {
            launch = launch.env(name, value);
        }
        let process = launch.clone().spawn(&log)?;
        Ok(Self {
            name,
            image: text(spec, "/image").to_owned(),
            restarts: 0,
            state: State::Running(process),
            launch,
            log,
            readiness: Probe::of(spec, "readinessProbe")?,
            liveness: Probe::of(spec, "livenessProbe")?,
            startup: Probe::of(spec, "startupProbe")?,
            spec: spec.clone(),
        })
    }

    /// True while its process runs and its readiness probe succeeds.
    pub(super) fn is_ready(&self) -> bool {
        let is_running = matches!(self.state, State::Running(_));
        is_running && self.has_started() && self.readiness.as_ref().is_none_or(|it| it.succeeds)
    }

    pub(super) fn has_started(&self) -> bool {
        self.startup.as_ref().is_none_or(|it| it.succeeds)
    }

    /// Looks after the process: its end, its probes, its restart.
    ///
    /// # Errors
    /// It cannot be started again.
    pub(super) async fn step(&mut self, net: &NetNs) -> anyhow::Result<()> {
        match &mut self.state {
            State::Running(process) => {
                if let Some(status) = process.ended()? {
                    let code = status.code().unwrap_or(137);
                    self.wait_for_restart(i64::from(code));
                    return Ok(());
                }
            }
            State::Waiting { until, .. } if Instant::now() < *until => return Ok(()),
            State::Waiting { .. } => {
                self.restarts += 1;
                self.state = State::Running(self.launch.clone().spawn(&self.log)?);
                self.readiness = Probe::of(&self.spec, "readinessProbe")?;
                self.liveness = Probe::of(&self.spec, "livenessProbe")?;
                self.startup = Probe::of(&self.spec, "startupProbe")?;
            }
        }
        if let Some(startup) = self.startup.as_mut().filter(|it| !it.succeeds) {
            startup.run_if_due(net).await;
        } else {
            let both = [&mut self.readiness, &mut self.liveness];
            for probe in both.into_iter().flatten() {
                probe.run_if_due(net).await;
            }
        }
        let of_life = [&self.startup, &self.liveness];
        let has_failed = of_life.into_iter().flatten().any(Probe::has_failed);
        if has_failed && let State::Running(process) = &mut self.state {
            process.kill_9()?;
            self.wait_for_restart(137);
        }
        Ok(())
    }

    fn wait_for_restart(&mut self, code: i64) {
        let factor = 2_u32.saturating_pow(self.restarts.min(8));
        let delay = BACKOFF_FIRST.saturating_mul(factor).min(BACKOFF_MAX);
        let until = Instant::now() + delay;
        self.state = State::Waiting { code, until };
    }

    /// Sends SIGTERM.
    pub(super) fn term(&mut self) {
        if let State::Running(process) = &mut self.state {
            // It may have ended by itself.
            drop(process.signal(Signal::TERM));
        }
    }

    pub(super) fn has_ended(&mut self) -> bool {
        match &mut self.state {
            State::Running(process) => !matches!(process.ended(), Ok(None)),
            State::Waiting { .. } => true,
        }
    }

    pub(super) fn kill(&mut self) {
        if let State::Running(process) = &mut self.state {
            drop(process.kill_9());
        }
    }
}

/// Environment of a container.
async fn variables(
    shared: &Shared,
    pod: &Value,
    container: &Value,
) -> anyhow::Result<Vec<(String, String)>> {
    let name = text(pod, "/metadata/name").to_owned();
    let mut all = vec![
        ("HOSTNAME".to_owned(), name),
        ("KUBERNETES_SERVICE_HOST".to_owned(), "127.0.0.1".to_owned()),
        (
            "KUBERNETES_SERVICE_PORT".to_owned(),
            shared.api_port.to_string(),
        ),
    ];
    for variable in list(container, "/env") {
        let name = text(variable, "/name").to_owned();
        let source = &variable["valueFrom"];
        let value = if let Some(value) = variable.get("value").and_then(Value::as_str) {
            value.to_owned()
        } else if source.get("fieldRef").is_some() {
            field(pod, text(source, "/fieldRef/fieldPath"))?
        } else {
            let (kinds, reference) = match source.get("secretKeyRef") {
                Some(reference) => ("secrets", reference),
                None => ("configmaps", &source["configMapKeyRef"]),
            };
            let namespace = text(pod, "/metadata/namespace");
            let object = text(reference, "/name");
            let values = shared.api.values(kinds, namespace, object).await?;
            let key = text(reference, "/key");
            let found = values.into_iter().find(|(name, _)| name == key);
            let (_, bytes) = found.with_context(|| format!("{object} has no {key}"))?;
            String::from_utf8(bytes)?
        };
        all.push((name, value));
    }
    Ok(all)
}
