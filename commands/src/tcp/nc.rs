//! `fairlead nc`: standard input and output on one TCP connection, as for the ProxyCommand of ssh.
//!
//! Threads read and write the standard streams: they may be files, pipes or terminals, and block the one thread of the
//! runtime otherwise.

use std::{
    fs::File,
    io::{self, Read, Write},
    pin::pin,
    thread,
};

use fairlead_api::{Code, Failure, tcp::TcpTarget};
use fairlead_client::{Environment, TcpSocket};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::{mpsc, oneshot},
};

use super::{
    TcpCluster, port_of,
    relay::{CopyError, both, confirm, failure_of},
    target_of,
};
use crate::{args::NcArgs, runtime::block_on};

/// Blocks between a thread and the connection.
const QUEUE_BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 32 * 1024;

pub(crate) fn run(args: &NcArgs, environment: &Environment) -> Result<(), Failure> {
    let target = match args.target.as_slice() {
        [host, port] => port_of(port).and_then(|port| TcpTarget::of_input(host, port)),
        both => target_of(&both.concat()),
    };
    let target = target.map_err(|error| Failure::because(Code::Usage, error))?;
    block_on(async {
        let cluster = TcpCluster::find(environment, &args.cluster).await?;
        let mut tunnel = cluster.open_only(&target).await?.socket;
        let copied = {
            let (from_tunnel, mut to_tunnel) = split(&mut tunnel);
            let upload = pin!(upload(&mut to_tunnel));
            both(upload, pin!(download(from_tunnel))).await
        };
        match copied {
            Ok(()) => {
                confirm(&mut tunnel).await;
                Ok(())
            }
            // The reader of the output has left, as `head` does.
            Err(CopyError::Local(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(CopyError::Local(error)) => Err(Failure::because(Code::CannotWrite, error)),
            Err(CopyError::Tunnel(error)) => Err(failure_of(&mut tunnel, &error).await),
        }
    })?
}

async fn upload(tunnel: &mut WriteHalf<&mut TcpSocket>) -> Result<(), CopyError> {
    let mut input = input();
    while let Some(block) = input.recv().await {
        let block = block.map_err(CopyError::Local)?;
        tunnel.write_all(&block).await.map_err(CopyError::Tunnel)?;
        tunnel.flush().await.map_err(CopyError::Tunnel)?;
    }
    tunnel.shutdown().await.map_err(CopyError::Tunnel)
}

/// Copies to the end of the tunnel's direction, and returns its reader.
async fn download(
    mut tunnel: ReadHalf<&mut TcpSocket>,
) -> Result<ReadHalf<&mut TcpSocket>, CopyError> {
    let (output, written) = output();
    loop {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let read = tunnel
            .read_buf(&mut block)
            .await
            .map_err(CopyError::Tunnel)?;
        if read == 0 || output.send(block).await.is_err() {
            break;
        }
    }
    drop(output);
    let written = written.await.map_err(io::Error::other);
    written.flatten().map_err(CopyError::Local)?;
    Ok(tunnel)
}

/// Blocks of standard input until its end.
fn input() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (blocks, receiver) = mpsc::channel(QUEUE_BLOCKS);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; BLOCK_BYTES];
        loop {
            let block = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(buffer.get(..read).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = block.is_err();
            if blocks.blocking_send(block).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Queue of standard output, and its result once the queue has ended: then it is closed, which is the half-close.
fn output() -> (mpsc::Sender<Vec<u8>>, oneshot::Receiver<io::Result<()>>) {
    let (sender, mut blocks) = mpsc::channel::<Vec<u8>>(QUEUE_BLOCKS);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        let mut write_all = || -> io::Result<()> {
            let mut stdout = io::stdout().lock();
            while let Some(block) = blocks.blocking_recv() {
                stdout.write_all(&block)?;
                stdout.flush()?;
            }
            // In the place of the closed one, so that no other file gets its number.
            let nothing = File::options().write(true).open("/dev/null")?;
            Ok(rustix::stdio::dup2_stdout(&nothing)?)
        };
        let _ = done.send(write_all());
    });
    (sender, written)
}
