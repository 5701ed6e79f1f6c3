//! A real collector of OpenTelemetry, which writes the spans that it gets into a file.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::ensure;
use fairlead_e2e::eventually;
use fairlead_testkit::process::{Launch, Process};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::files::repository;

const READY_DEADLINE: Duration = Duration::from_secs(30);
/// Time of an export, and of the file.
const SPANS_DEADLINE: Duration = Duration::from_secs(30);

/// A running collector. It ends when this is dropped.
pub(crate) struct Collector {
    address: SocketAddr,
    spans: PathBuf,
    process: Process,
}

/// A span in the file.
#[derive(Debug, Clone)]
pub(crate) struct CollectedSpan {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) attributes: Value,
}

impl Collector {
    /// Builds the program, unless it is cached, and starts it with its files in `folder`.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let script = repository().join("e2e/otel/build");
        let built = Command::new(script).stderr(Stdio::inherit()).output()?;
        ensure!(built.status.success(), "e2e/otel/build failed");
        let program = String::from_utf8(built.stdout)?.trim().to_owned();
        // The collector does not report the port that it got.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (config, spans) = (folder.join("otelcol.yaml"), folder.join("spans.json"));
        let text = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: \"{address}\"}}}}}}}}\n\
             exporters: {{file: {{path: \"{}\", flush_interval: 100ms}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}\n",
            spans.display()
        );
        fs::write(&config, text)?;
        let launch = Launch::new(program).args([format!("--config=file:{}", config.display())]);
        let mut process = launch.spawn(folder.join("otelcol.log"))?;
        let open = eventually(
            READY_DEADLINE,
            "an open port of the collector",
            async || TcpStream::connect(address).await.ok(),
        );
        if let Err(error) = open.await {
            return Err(error.context(format!("{:?}: {}", process.ended()?, process.log()?)));
        }
        Ok(Collector {
            address,
            spans,
            process,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whole content of the file.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.spans).unwrap_or_default())
    }

    /// Waits until a trace has this number of spans.
    pub(crate) async fn trace(
        &mut self,
        trace: &str,
        count: usize,
    ) -> anyhow::Result<Vec<CollectedSpan>> {
        let mut last = Vec::new();
        let found = eventually(SPANS_DEADLINE, "the spans of a trace", async || {
            let all = spans(&self.text().ok()?);
            last = all.into_iter().filter(|it| it.trace == trace).collect();
            (last.len() >= count).then_some(())
        });
        match found.await {
            Ok(()) => Ok(last),
            Err(error) => {
                let ended = self.process.ended()?;
                let log = self.process.log()?;
                Err(error.context(format!("{last:#?}, collector {ended:?}: {log}")))
            }
        }
    }
}

/// Spans in lines of JSON. The last line may be incomplete.
fn spans(text: &str) -> Vec<CollectedSpan> {
    let lines = text
        .lines()
        .filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let resources = lines.flat_map(|it| list(&it["resourceSpans"]));
    let of_resource = |resource: Value| {
        let attributes = list(&resource["resource"]["attributes"]);
        let name = attributes.iter().find(|it| it["key"] == "service.name");
        let name = name.and_then(|it| it.pointer("/value/stringValue")?.as_str());
        let service = name.unwrap_or_default().to_owned();
        let scopes = list(&resource["scopeSpans"]).into_iter();
        let spans = scopes.flat_map(move |it| list(&it["spans"]));
        spans.map(move |span| {
            let text = |field: &str| span[field].as_str().unwrap_or_default().to_owned();
            CollectedSpan {
                service: service.clone(),
                name: text("name"),
                trace: text("traceId"),
                id: text("spanId"),
                parent: text("parentSpanId"),
                attributes: span["attributes"].clone(),
            }
        })
    };
    resources.flat_map(of_resource).collect()
}
