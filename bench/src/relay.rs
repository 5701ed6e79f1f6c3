//! Role `relay`: a TCP relay on the path between agent and hub.
//!
//! It forwards at full speed, or at a fixed rate per direction that all connections share. SIGUSR1 resets
//! every connection. SIGUSR2 silences every one for good.

mod rate_limit;

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    signal::unix::{SignalKind, signal},
    sync::watch,
    time,
};

use self::rate_limit::RateLimit;
use fairlead_testkit::server::listen;

/// Buffer of one direction of one connection, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Port of 127.0.0.1 to listen on
    #[arg(long)]
    listen: u16,
    /// Port of 127.0.0.1 to forward to
    #[arg(long)]
    to: u16,
    /// Bytes per second and direction, over all connections
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    rate: Option<u64>,
}

/// State of a connection. Later connections start in the state that is current then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelayFate {
    Fine,
    Cut,
    Silent,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let listener = listen(args.listen).with_context(|| format!("port {}", args.listen))?;
    let mut cut = signal(SignalKind::user_defined1())?;
    let mut silence = signal(SignalKind::user_defined2())?;
    let (up, down) = (
        Arc::new(RateLimit::new(args.rate)),
        Arc::new(RateLimit::new(args.rate)),
    );
    let mut fate = watch::Sender::new(RelayFate::Fine);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    let relayed = relay(socket, args.to, up.clone(), down.clone(), fate.subscribe());
                    // The task ends with either side of the connection.
                    drop(tokio::spawn(relayed));
                }
                Err(error) => {
                    eprintln!("accept: {error}");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            },
            _ = cut.recv() => fate = befall(&fate, RelayFate::Cut),
            _ = silence.recv() => fate = befall(&fate, RelayFate::Silent),
        }
    }
}

/// Sets the state of all open connections and returns the sender for later ones.
fn befall(fate: &watch::Sender<RelayFate>, what: RelayFate) -> watch::Sender<RelayFate> {
    fate.send_replace(what);
    watch::Sender::new(RelayFate::Fine)
}

async fn relay(
    mut near: TcpStream,
    to: u16,
    up: Arc<RateLimit>,
    down: Arc<RateLimit>,
    mut fate: watch::Receiver<RelayFate>,
) -> io::Result<()> {
    let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let befallen = {
        let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
        let passing = async {
            tokio::try_join!(
                pass(near_read, far_write, &up),
                pass(far_read, near_write, &down),
            )
        };
        tokio::select! {
            ended = passing => return ended.map(drop),
            changed = fate.wait_for(|fate| *fate != RelayFate::Fine) => {
                changed.map_or(RelayFate::Cut, |fate| *fate)
            }
        }
    };
    if befallen == RelayFate::Silent {
        // The sockets stay open and unread until the process ends with its scenario.
        std::future::pending::<()>().await;
    }
    near.set_zero_linger()?;
    far.set_zero_linger()
}

async fn pass(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, limit: &RateLimit) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES.min(limit.slice())];
    loop {
        let read = from.read(&mut buffer).await?;
        match buffer.get(..read) {
            None | Some([]) => return to.shutdown().await,
            Some(bytes) => {
                limit.wait(bytes.len()).await;
                to.write_all(bytes).await?;
            }
        }
    }
}
