//! A real Prometheus, and promtool.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_testkit::{
    process::{Launch, Process},
    raw::RawClient,
    reserved_port::ReservedPort,
    wait::eventually,
};
use serde_json::Value;
use time::OffsetDateTime;

const READY_DEADLINE: Duration = Duration::from_secs(30);

/// Unpacks Prometheus, unless it is cached, and returns the folder of its programs.
///
/// # Errors
/// There is no package of it.
pub fn programs() -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("prometheus/build");
    let built = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "prometheus/build failed");
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

/// Runs promtool with this input; returns its whole output.
///
/// # Errors
/// It fails. The error quotes its output.
pub fn promtool(folder: &Path, args: &[&str], input: &str) -> anyhow::Result<String> {
    let stdin = folder.join("promtool.in");
    fs::write(&stdin, input)?;
    let output = Command::new(programs()?.join("promtool"))
        .args(args)
        .stdin(fs::File::open(&stdin)?)
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = args.join(" ");
    ensure!(output.status.success(), "promtool {line}: {text}");
    Ok(text)
}

/// A running Prometheus. It ends when this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    port: ReservedPort,
    /// Kept so that it ends with this.
    _process: Process,
}

/// A job of the scrape configuration, with the addresses of its targets.
pub type ScrapeJob<'a> = (&'a str, Vec<SocketAddr>);

impl Prometheus {
    /// Starts one with its data in `folder`. It scrapes and evaluates `rules` each second.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start(folder: &Path, jobs: &[ScrapeJob<'_>], rules: &str) -> anyhow::Result<Self> {
        fs::write(folder.join("rules.yaml"), rules)?;
        fs::write(folder.join("prometheus.yaml"), configuration(jobs))?;
        // Prometheus does not report the port that it got.
        let port = ReservedPort::new()?;
        let flags = [
            format!("--config.file={}", folder.join("prometheus.yaml").display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address={}", port.address()),
            "--enable-feature=exemplar-storage".to_owned(),
        ];
        let launch = Launch::new(programs()?.join("prometheus")).args(flags);
        let process = launch.spawn(folder.join("prometheus.log"))?;
        let prometheus = Prometheus {
            port,
            _process: process,
        };
        eventually(READY_DEADLINE, "a ready Prometheus", async || {
            prometheus.client().get("/-/ready").await.ok()
        })
        .await?;
        Ok(prometheus)
    }

    fn client(&self) -> RawClient {
        RawClient::plain(self.port.address())
    }

    /// Result of a query at this moment.
    ///
    /// # Errors
    /// Prometheus refuses it.
    pub async fn query(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/api/v1/query?query={}", encode(query));
        self.result(&path, query).await
    }

    /// Result of a query from `start` to `end`, in Unix time, at each `step` seconds.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn query_range(
        &self,
        query: &str,
        (start, end): (i64, i64),
        step: i64,
    ) -> anyhow::Result<Vec<Value>> {
        let query_text = encode(query);
        let path =
            format!("/api/v1/query_range?query={query_text}&start={start}&end={end}&step={step}");
        self.result(&path, query).await
    }

    /// Exemplars of the last hour, with their series.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn exemplars(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let (query_text, start) = (encode(query), now - 3600);
        let path = format!("/api/v1/query_exemplars?query={query_text}&start={start}&end={now}");
        self.list(&path, query, "/data").await
    }

    async fn result(&self, path: &str, query: &str) -> anyhow::Result<Vec<Value>> {
        self.list(path, query, "/data/result").await
    }

    async fn list(&self, path: &str, query: &str, place: &str) -> anyhow::Result<Vec<Value>> {
        let body = self.client().get(path).await;
        let body = body.with_context(|| query.to_owned())?;
        let mut answer: Value = serde_json::from_str(&body)?;
        let result = answer.pointer_mut(place).map(Value::take);
        match result {
            Some(Value::Array(result)) => Ok(result),
            _ => anyhow::bail!("{query}: {body}"),
        }
    }
}

fn configuration(jobs: &[ScrapeJob<'_>]) -> String {
    let mut text = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n".to_owned();
    for (job, targets) in jobs {
        let targets: Vec<String> = targets.iter().map(|it| format!("\"{it}\"")).collect();
        let targets = targets.join(", ");
        text += &format!("  - {{job_name: {job}, static_configs: [{{targets: [{targets}]}}]}}\n");
    }
    text
}

/// Percent-encodes all bytes but letters and digits.
fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}
