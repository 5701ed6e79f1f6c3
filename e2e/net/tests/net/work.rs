//! Commands of users during a fault: an exec, one on a terminal, a watch and a `logs -f`. Each gets numbers
//! in lockstep, so that any loss or duplication shows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{RunningKubectl, Terminal, eventually};
use fairlead_e2e_net::Stage;

/// Deadline of a number's round trip; longer than any tolerated pause.
const NUMBER_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Work {
    pod: String,
    /// Unique part of the names of created objects.
    label: String,
    exec: RunningKubectl,
    terminal: Terminal,
    logs: RunningKubectl,
    watch: RunningKubectl,
    /// The last number that was sent, and the last that each command has returned.
    number: u32,
    seen: u32,
}

impl Work {
    /// Starts all four commands through the tunnel and checks each of them once.
    pub(crate) async fn start(stage: &Stage) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // The cluster is shared, so objects of earlier tests must have other names.
        let label = format!("work-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let kubectl = stage.kubectl().await?.deadline(NUMBER_DEADLINE);
        let pod = stage.pod().await?;
        let exec = kubectl.clone().args(["exec", "-i", &pod, "--", "cat"]);
        let terminal = kubectl.clone().args(["exec", "-it", &pod, "--", "cat"]);
        let logs = kubectl.clone().args(["logs", "-f", "--tail=1", &pod]);
        let selector = format!("work={label}");
        let watch = ["get", "configmaps", "-w", "-o", "name", "-l", &selector];
        stage
            .cluster
            .print_in_container("default", &pod, "demo", &format!("{label}-0"))?;
        let mut work = Self {
            exec: exec.spawn()?,
            terminal: terminal.terminal(24, 80)?,
            logs: logs.spawn()?,
            watch: kubectl.args(watch).spawn()?,
            pod,
            label: label.clone(),
            number: 0,
            seen: 0,
        };
        // The terminal itself echoes until kubectl has put it into raw mode.
        work.terminal.write(&format!("{label}-begun\r"))?;
        let begun = format!("{label}-begun\r\n");
        work.on_terminal(&begun).await?;
        let line = work.logs.next_line().await?.context("no log")?;
        ensure!(line == format!("{label}-0"), "logs -f: {line}");
        // kubectl lists before it watches, so each later object is reported once by one of the two.
        work.feed(stage).await?;
        work.see().await?;
        Ok(work)
    }

    /// Sends each command the next number. Log and watch get it at the site in every state of the path.
    pub(crate) async fn feed(&mut self, stage: &Stage) -> anyhow::Result<()> {
        self.number += 1;
        let name = format!("{}-{}", self.label, self.number);
        let line = format!("{name}\n");
        self.exec
            .write(line.as_bytes())
            .await
            .with_context(|| format!("exec: {}", self.exec.stderr()))?;
        self.terminal.write(&format!("{name}\r"))?;
        stage
            .cluster
            .print_in_container("default", &self.pod, "demo", &name)?;
        let manifest = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{work: {}}}}}}}",
            self.label
        );
        let create = stage.cluster.kubectl().args(["create", "-f", "-"]);
        let create = create.deadline(NUMBER_DEADLINE).stdin(manifest);
        create.run().await?.success()?;
        Ok(())
    }

    /// Checks that each command returns all numbers since the last check, once and in order, and nothing
    /// else.
    pub(crate) async fn see(&mut self) -> anyhow::Result<()> {
        let each = [
            ("exec", &mut self.exec, ""),
            ("logs -f", &mut self.logs, ""),
            ("watch", &mut self.watch, "configmap/"),
        ];
        for (what, running, before) in each {
            for number in self.seen + 1..=self.number {
                let expected = format!("{before}{}-{number}", self.label);
                let line = running.next_line().await.context(what)?;
                let said = || format!("{what}: {line:?} for {expected}; {}", running.stderr());
                ensure!(line.as_deref() == Some(expected.as_str()), said());
            }
        }
        for number in self.seen + 1..=self.number {
            let line = format!("{}-{number}\r\n", self.label);
            let times = self.on_terminal(&line).await?;
            ensure!(times == 2, "exec -it: {:?}", self.terminal.screen());
        }
        self.seen = self.number;
        Ok(())
    }

    /// Waits until the line appears twice, as typed and as returned, and returns the number of appearances.
    async fn on_terminal(&self, line: &str) -> anyhow::Result<usize> {
        let times = || self.terminal.screen().matches(line).count();
        let shown = eventually(NUMBER_DEADLINE, line, async || {
            Some(times()).filter(|&n| n >= 2)
        });
        let shown = shown.await;
        shown.with_context(|| format!("exec -it: {:?}", self.terminal.screen()))
    }

    /// Sends a few numbers one after the other.
    pub(crate) async fn go_on(&mut self, stage: &Stage) -> anyhow::Result<()> {
        for _ in 0..3 {
            self.feed(stage).await?;
            self.see().await?;
        }
        Ok(())
    }
}
