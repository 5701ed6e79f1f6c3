//! `fairlead proxy`: a local proxy into a cluster. The first byte of a request distinguishes SOCKS5 and HTTP (CONNECT).

use std::{io, time::Duration};

use fairlead_api::{Code, Failure, tcp::TcpTarget};
use fairlead_client::{Environment, ResetSocket};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    TcpCluster, http_connect,
    listener::{allow_many_connections, bind, local_address, serve, until_signal},
    relay::relay,
    socks,
};
use crate::{args::ProxyArgs, output, runtime::block_on};

/// Deadline for the request of a program.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Request of a program for a connection.
pub(super) struct ProxyRequest {
    pub(super) target: TcpTarget,
    /// Bytes for the target that came with the request.
    pub(super) early: Vec<u8>,
    pub(super) form: ProxyForm,
}

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyForm {
    Socks5,
    HttpConnect,
}

/// A request that gets no connection.
#[derive(Debug)]
pub(super) enum ProxyRefusal {
    /// The program left, or was too slow.
    Gone,
    /// The request cannot be served; the bytes are the answer.
    Answered(Vec<u8>, String),
}

impl From<io::Error> for ProxyRefusal {
    fn from(_: io::Error) -> Self {
        ProxyRefusal::Gone
    }
}

pub(crate) fn run(args: &ProxyArgs, environment: &Environment) -> Result<(), Failure> {
    allow_many_connections();
    block_on(async {
        let cluster = TcpCluster::find(environment, &args.cluster).await?;
        let listener = bind(args.listen, args.allow_remote).await?;
        let address = local_address(&listener)?;
        let id = &cluster.id;
        let text = format!("Proxy to {id}: socks5h://{address} and http://{address} (CONNECT)\n");
        output::print(&text)?;
        let cluster = cluster.clone();
        until_signal(serve(listener, move |local| {
            proxy_one(cluster.clone(), local)
        }))
        .await
    })?
}

async fn proxy_one(cluster: TcpCluster, mut local: ResetSocket) -> Result<(), Failure> {
    let request = match timeout(REQUEST_DEADLINE, read_request(&mut local)).await {
        Ok(Ok(request)) => request,
        Ok(Err(ProxyRefusal::Gone)) | Err(_) => return Ok(()),
        Ok(Err(ProxyRefusal::Answered(answer, cause))) => {
            end_with(&mut local, &answer).await;
            return Err(Failure::because(Code::ProxyRequest, cause));
        }
    };
    let opened = cluster.open(&request.target).await;
    let answer = match (request.form, &opened) {
        (ProxyForm::Socks5, Ok(_)) => socks::reply(socks::REPLY_SUCCEEDED).to_vec(),
        (ProxyForm::Socks5, Err(failure)) => socks::reply(socks::code_of(failure)).to_vec(),
        (ProxyForm::HttpConnect, Ok(_)) => http_connect::ESTABLISHED.to_vec(),
        (ProxyForm::HttpConnect, Err(failure)) => http_connect::refusal(failure),
    };
    let mut tunnel = match opened {
        Ok(tunnel) => tunnel,
        Err(failure) => {
            end_with(&mut local, &answer).await;
            let cause = format!("{}: {}", request.target, failure.cause);
            return Err(Failure { cause, ..failure });
        }
    };
    let started = async {
        local.write_all(&answer).await?;
        tunnel.socket.write_all(&request.early).await
    };
    if started.await.is_err() {
        return Ok(());
    }
    relay(&mut local, &mut tunnel.socket).await
}

async fn read_request(local: &mut ResetSocket) -> Result<ProxyRequest, ProxyRefusal> {
    match local.read_u8().await? {
        socks::SOCKS_VERSION => socks::read_request(local).await,
        first if first.is_ascii_alphabetic() => http_connect::read_request(local, first).await,
        first => {
            let cause = format!("its first byte is {first:#04x}, neither SOCKS5 nor HTTP");
            Err(ProxyRefusal::Answered(Vec::new(), cause))
        }
    }
}

/// Sends an answer as the last bytes, and waits until the program has closed, so that it reads them.
async fn end_with(local: &mut ResetSocket, answer: &[u8]) {
    let ending = async {
        local.write_all(answer).await?;
        local.shutdown().await?;
        let mut dropped = [0; 1024];
        while local.read(&mut dropped).await? > 0 {}
        io::Result::Ok(())
    };
    // The program may have left already.
    let _ = timeout(REQUEST_DEADLINE, ending).await;
}
