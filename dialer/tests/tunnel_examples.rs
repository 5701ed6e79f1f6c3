//! Both examples as programs of their own on loopback: a page, and TCP connections with half-close, through them.
//!
//! `cargo build --workspace --examples` builds the programs.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use fairlead_dialer::HUB_SERVER_NAME;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Deadline of each step, far beyond its time on a busy machine.
const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// Both programs; they end with it.
struct Programs {
    folder: TempDir,
    hub: Child,
    printed: Lines<BufReader<ChildStdout>>,
    agent: Option<Child>,
}

impl Programs {
    /// Starts the hub, and an agent with one allowed target. Returns when the hub listens.
    async fn start(target: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hub_names = [HUB_SERVER_NAME, "localhost", "127.0.0.1"];
        certificate(folder.path(), "hub", &hub_names);
        certificate(folder.path(), "agent", &["site-1"]);
        let mut hub = program(folder.path(), "hub", "127.0.0.1:0", target);
        let printed = BufReader::new(hub.stdout.take().unwrap()).lines();
        let mut programs = Programs {
            folder,
            hub,
            printed,
            agent: None,
        };
        let address = programs.printed_after("listening on ").await;
        let url = format!("https://{address}");
        let agent = program(programs.folder.path(), "agent", &url, target);
        programs.agent = Some(agent);
        programs
    }

    /// Rest of the next line that the hub prints with this begin.
    async fn printed_after(&mut self, begin: &str) -> String {
        loop {
            let waiting = async {
                let agent = self.agent.as_mut().map(Child::wait);
                tokio::select! {
                    line = self.printed.next_line() => line.unwrap(),
                    _ = async { agent.unwrap().await }, if agent.is_some() => None,
                }
            };
            let line = timeout(STEP_DEADLINE, waiting).await.ok().flatten();
            let Some(line) = line else {
                let reports = self.reports();
                panic!("no line {begin:?} from the hub\n{reports}");
            };
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    /// Status and standard error of both programs.
    fn reports(&mut self) -> String {
        let mut reports = String::new();
        let both = [("hub", Some(&mut self.hub)), ("agent", self.agent.as_mut())];
        for (name, child) in both {
            let status = child.map(|child| child.try_wait().unwrap());
            let log = self.folder.path().join(format!("{name}.log"));
            let log = fs::read_to_string(log).unwrap_or_default();
            reports.push_str(&format!("{name}: {status:?}\n{log}\n"));
        }
        reports
    }
}

/// Self-signed certificate and its key as PEM files.
fn certificate(folder: &Path, owner: &str, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    fs::write(folder.join(owner).with_extension("pem"), cert.pem()).unwrap();
    let key = signing_key.serialize_pem();
    fs::write(folder.join(owner).with_extension("key"), key).unwrap();
}

fn program(folder: &Path, name: &str, address: &str, target: &str) -> Child {
    let log = File::create(folder.join(format!("{name}.log"))).unwrap();
    Command::new(example(name))
        .args([address, target])
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The built example: `examples` lies beside the folder of this program.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let build = test.parent().and_then(Path::parent).unwrap();
    let program = build.join("examples").join(name);
    let missing = "is missing: cargo build --workspace --examples";
    assert!(program.exists(), "{} {missing}", program.display());
    program
}

async fn in_time<T>(programs: &mut Programs, step: impl Future<Output = T>) -> T {
    match timeout(STEP_DEADLINE, step).await {
        Ok(done) => done,
        Err(_) => panic!("a step did not end\n{}", programs.reports()),
    }
}

#[tokio::test]
async fn examples_pass_a_page_and_half_closed_connections() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = target.local_addr().unwrap().to_string();
    let mut programs = Programs::start(&name).await;
    let page = programs.printed_after("site-1 answered: ").await;
    assert_eq!(page, "/page behind the firewall");
    let local = programs
        .printed_after(&format!("{name} of site-1 is at "))
        .await;

    // The client ends first: its end arrives while the other direction stays open.
    let sent: Vec<u8> = (0..1_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let client = async {
        let mut tcp = TcpStream::connect(&local).await.unwrap();
        tcp.write_all(&sent).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let server = async {
        let (mut tcp, _) = target.accept().await.unwrap();
        let mut received = Vec::new();
        tcp.read_to_end(&mut received).await.unwrap();
        tcp.write_all(b"all received").await.unwrap();
        received
    };
    let (answer, received) = in_time(&mut programs, async { tokio::join!(client, server) }).await;
    assert_eq!(answer, "all received");
    assert!(received == sent, "{} bytes arrived", received.len());

    // The target ends first.
    let client = async {
        let mut tcp = TcpStream::connect(&local).await.unwrap();
        let mut greeting = String::new();
        tcp.read_to_string(&mut greeting).await.unwrap();
        tcp.write_all(b"late").await.unwrap();
        greeting
    };
    let server = async {
        let (mut tcp, _) = target.accept().await.unwrap();
        tcp.write_all(b"hello").await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut late = String::new();
        tcp.read_to_string(&mut late).await.unwrap();
        late
    };
    let ends = in_time(&mut programs, async { tokio::join!(client, server) }).await;
    assert_eq!(ends, ("hello".to_owned(), "late".to_owned()));
}
