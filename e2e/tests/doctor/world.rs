//! A hub, a cluster with the namespace of an agent, and checks of one fault: doctor, log and Event.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Process, eventually, fleet::fairlead};
use serde_json::Value;

const DIAGNOSIS_DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct DoctorWorld {
    pub(crate) cluster: Cluster,
    pub(crate) hub: Hub,
}

/// A fault, and its stage and code.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) stage: &'static str,
    pub(crate) code: &'static str,
    /// Words in cause, evidence or next step.
    pub(crate) words: Vec<String>,
    /// URL of the hub with the fault; `None`: that of the join string.
    pub(crate) url: Option<String>,
    pub(crate) proxy: Option<String>,
    pub(crate) proxy_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) join: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) event: Expected,
}

/// Event of the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Event,
    LogOnly,
}

impl DoctorWorld {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::with(Hub::start().await?).await
    }

    pub(crate) async fn with(hub: Hub) -> anyhow::Result<Self> {
        let cluster = Cluster::start_lite().await?;
        let create = cluster.kubectl().args(["create", "namespace", "fairlead"]);
        create.run().await?.success()?;
        Ok(DoctorWorld { cluster, hub })
    }

    /// A fault of this name, with a cluster of its own.
    pub(crate) async fn fault(
        &self,
        name: &'static str,
        (stage, code): (&'static str, &'static str),
        words: &[&str],
    ) -> anyhow::Result<Fault> {
        Ok(Fault {
            name,
            stage,
            code,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            url: None,
            proxy: None,
            proxy_file: None,
            ca_file: None,
            join: self.hub.create_cluster(name).await?.join,
            kubeconfig: self.cluster.kubeconfig(),
            event: Expected::Event,
        })
    }

    /// Checks the doctor first: the agent may spend the token.
    pub(crate) async fn check(&self, fault: &Fault) -> anyhow::Result<()> {
        let checked = async {
            self.check_doctor(fault).await?;
            self.check_agent(fault).await.map(drop)
        };
        checked.await.context(fault.name)
    }

    /// As [`DoctorWorld::check`]; returns the agent, which still runs.
    pub(crate) async fn diagnosed(&self, fault: &Fault) -> anyhow::Result<Process> {
        self.check_doctor(fault).await.context(fault.name)?;
        self.check_agent(fault).await.context(fault.name)
    }

    /// Arguments of agent and doctor; `url` is the flag with the hub.
    fn arguments(&self, fault: &Fault, url: &str) -> Vec<String> {
        let state = self.hub.dir().join(format!("{}.state", fault.name));
        let mut args = vec![
            "--kubeconfig".to_owned(),
            fault.kubeconfig.display().to_string(),
            "--state".to_owned(),
            state.display().to_string(),
        ];
        if let Some(hub) = &fault.url {
            args.extend([url.to_owned(), hub.clone()]);
        }
        if let Some(file) = &fault.proxy_file {
            args.extend(["--proxy-file".to_owned(), file.display().to_string()]);
        }
        if let Some(file) = &fault.ca_file {
            args.extend(["--ca-file".to_owned(), file.display().to_string()]);
        }
        args
    }

    /// Result of `fairlead doctor -o json`.
    pub(crate) async fn doctor(
        &self,
        fault: &Fault,
        more: &[&str],
    ) -> anyhow::Result<(i32, Value)> {
        let mut args = vec!["doctor".to_owned(), "-o".to_owned(), "json".to_owned()];
        args.extend(self.arguments(fault, "--url"));
        args.extend(more.iter().map(|&word| word.to_owned()));
        let mut env = vec![("FAIRLEAD_JOIN", fault.join.as_str())];
        env.extend(fault.proxy.as_deref().map(|url| ("HTTPS_PROXY", url)));
        let output = fairlead(self.hub.dir(), &args, &env).await?;
        let status = output.status.code().context("the doctor was killed")?;
        let secrets = [fault.join.as_str(), "pr0xy-secret"];
        let is_clean = secrets.iter().all(|it| !output.text().contains(it));
        ensure!(is_clean, "a secret is in the output: {output:?}");
        let json = serde_json::from_slice(&output.stdout);
        Ok((status, json.with_context(|| format!("{output:?}"))?))
    }

    async fn check_doctor(&self, fault: &Fault) -> anyhow::Result<()> {
        let (status, checkup) = self.doctor(fault, &[]).await?;
        ensure!(status == 1, "exit code {status}: {checkup}");
        let stages = stages(&checkup);
        let failed = stages.iter().position(|it| it["result"] == "failed");
        let failed = failed.with_context(|| format!("nothing failed: {checkup}"))?;
        let found = &stages[failed];
        ensure!(
            found["stage"] == fault.stage && found["code"] == fault.code,
            "{found} in {checkup}"
        );
        let text = found.to_string();
        for word in &fault.words {
            ensure!(text.contains(word), "{word:?} is not in {text}");
        }
        let next = found["next"].as_str().unwrap_or_default();
        ensure!(next.ends_with('.'), "{found}");
        let rest = stages[failed + 1..].iter();
        for later in rest {
            ensure!(later["result"] == "notTried", "{later} in {checkup}");
        }
        for earlier in &stages[..failed] {
            ensure!(earlier["result"] != "failed", "{earlier}");
        }
        Ok(())
    }

    async fn check_agent(&self, fault: &Fault) -> anyhow::Result<Process> {
        let mut agent = self.agent(fault)?;
        agent.wait_for_log(fault.code, DIAGNOSIS_DEADLINE).await?;
        if fault.event == Expected::LogOnly {
            return Ok(agent);
        }
        let diagnosis = "diagnosis of the path to the hub";
        agent.wait_for_log(diagnosis, DIAGNOSIS_DEADLINE).await?;
        let hub = fault
            .url
            .clone()
            .unwrap_or_else(|| self.hub.ready().url.clone());
        let message = self.event("HubUnreachable", &hub, fault.code).await?;
        ensure!(message.contains(" Next: "), "{message}");
        let log = agent.log()?;
        let of_code = |line: &&str| line.contains(diagnosis) && line.contains(fault.code);
        ensure!(log.lines().filter(of_code).count() == 1, "{log}");
        ensure!(!log.contains("pr0xy-secret") && !log.contains(&fault.join));
        Ok(agent)
    }

    pub(crate) fn agent(&self, fault: &Fault) -> anyhow::Result<Process> {
        let mut launch = Launch::agent()?
            .args(["agent"])
            .args(self.arguments(fault, "--hub"))
            .env("HOME", self.hub.dir())
            .env("FAIRLEAD_JOIN", &fault.join);
        if let Some(proxy) = &fault.proxy {
            launch = launch.env("HTTPS_PROXY", proxy);
        }
        launch.spawn(self.hub.dir().join(format!("{}.log", fault.name)))
    }

    /// Message of the one Event with this reason, hub and code.
    pub(crate) async fn event(
        &self,
        reason: &str,
        hub: &str,
        code: &str,
    ) -> anyhow::Result<String> {
        let get = ["get", "events", "-n", "fairlead", "-o", "json"];
        let what = format!("an Event {reason} with {code} about {hub}");
        let hub = hub.trim_end_matches('/');
        eventually(DIAGNOSIS_DEADLINE, &what, async || {
            let run = self.cluster.kubectl().args(get).run().await.ok()?;
            let events: Value = serde_json::from_str(&run.success().ok()?).ok()?;
            let items = events["items"].as_array()?.clone();
            let mut found = items.iter().filter(|it| it["reason"] == reason);
            found.find_map(|it| {
                let message = it["message"].as_str()?;
                (message.contains(hub) && message.starts_with(code)).then(|| message.to_owned())
            })
        })
        .await
    }

    /// Writes a file into the hub's folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.hub.dir().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

/// All stages of all sections.
pub(crate) fn stages(checkup: &Value) -> Vec<Value> {
    let sections = checkup["sections"].as_array().cloned().unwrap_or_default();
    let each = sections
        .iter()
        .filter_map(|it| it["stages"].as_array().cloned());
    each.flatten().collect()
}
