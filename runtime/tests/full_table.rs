//! Accept loop at the limit of open files; in a process of its own, because the limit belongs to the process.

#![cfg(test)]

use std::{fs::File, net::SocketAddr, time::Duration};

use fairlead_runtime::{Process, listen};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    net::TcpSocket,
    sync::{mpsc, watch},
    time::{Instant, timeout},
};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry,
};

/// Limit of open files, a few above the initial number.
const MAX_FILES: u64 = 64;
/// Pause of a loop after an error.
const RETRY_DELAY: Duration = Duration::from_millis(100);
const MIN_WARNINGS: usize = 5;

/// Times of the loop's warnings.
struct WarningTimes(watch::Sender<Vec<Instant>>);

impl<S: Subscriber> Layer<S> for WarningTimes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            self.0.send_modify(|times| times.push(Instant::now()));
        }
    }
}

/// Opens files until the table is full.
fn fill() -> Vec<File> {
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
        assert!(files.len() as u64 <= MAX_FILES, "the limit does not hold");
    }
    files
}

fn client() -> TcpSocket {
    TcpSocket::new_v4().unwrap()
}

#[tokio::test(start_paused = true)]
async fn accept_loop_at_the_file_limit_pauses_and_recovers() {
    let warnings = watch::Sender::new(Vec::new());
    let mut warned = warnings.subscribe();
    let logged = registry().with(WarningTimes(warnings));
    let _logging = tracing::subscriber::set_default(logged);
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(MAX_FILES);
    setrlimit(Resource::Nofile, limit).unwrap();

    let process = Process::new();
    let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, mut peers) = mpsc::channel::<SocketAddr>(8);
    let looping = process.clone();
    let looping = tokio::spawn(async move {
        let handle = move |_, peer| {
            let seen = seen.clone();
            async move { seen.send(peer).await.unwrap() }
        };
        listen::accept_loop(listener, &looping, looping.draining(), handle).await;
    });
    // The sockets of the clients exist before the table is full.
    let clients = [client(), client(), client()];
    let full = fill();
    let mut connected = Vec::new();
    for client in clients {
        connected.push(client.connect(address).await.unwrap());
    }
    let often_enough = warned.wait_for(|times| times.len() >= MIN_WARNINGS);
    let times = often_enough.await.unwrap().clone();
    for pair in times.windows(2) {
        let &[one, next] = pair else { continue };
        assert!(next - one >= RETRY_DELAY, "{:?}", next - one);
    }
    assert!(peers.try_recv().is_err());

    drop(full);
    for client in &connected {
        let seen = timeout(Duration::from_secs(60), peers.recv()).await;
        assert_eq!(seen.unwrap(), Some(client.local_addr().unwrap()));
    }
    process.start_drain();
    looping.await.unwrap();
}
