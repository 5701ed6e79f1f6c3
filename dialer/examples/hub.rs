//! Hub: authenticates agents, gets a page of each, and opens a local port for its TCP target.
//!
//! `cargo run -p fairlead-dialer --example hub -- LISTEN TARGET FOLDER`

#![allow(clippy::print_stdout, reason = "it prints the page and its ports")]

use std::{env::args, error::Error, path::Path};

use bytes::Bytes;
use fairlead_dialer::{
    CloseReason, Limits, Session,
    tunnel::{AgentCredentials, AgentListener, HubTls, SessionConnector, forward},
};
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let [listen, target, folder] = args.as_slice() else {
        return Err("usage: hub LISTEN TARGET FOLDER".into());
    };
    let file = |name| Path::new(folder).join(name);
    let known = CertificateDer::from_pem_file(file("agent.pem"))?;
    let tls = HubTls::from_files(file("hub.pem"), file("hub.key"), file("agent.pem"))?;
    let authenticate = move |agent: AgentCredentials| {
        let is_known = agent.certificates.first() == Some(&known);
        async move { is_known.then_some("site-1").ok_or(CloseReason::Revoked) }
    };
    let mut agents = AgentListener::bind(listen, tls, Limits::default(), authenticate).await?;
    println!("listening on {}", agents.local_addr()?);
    loop {
        let accepted = agents.accept().await;
        tokio::spawn(serve(accepted.agent, accepted.session, target.clone()));
    }
}

async fn serve(agent: &str, session: Session, target: String) -> Result<(), Failure> {
    let connector = SessionConnector::new(session.clone());
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(connector);
    let page = client.get("http://agent/page".parse()?).await?;
    let page = page.into_body().collect().await?.to_bytes();
    println!("{agent} answered: {}", String::from_utf8_lossy(&page));

    let local = TcpListener::bind("127.0.0.1:0").await?;
    println!("{target} of {agent} is at {}", local.local_addr()?);
    loop {
        let (tcp, _) = tokio::select! {
            connected = local.accept() => connected?,
            end = session.closed() => return Err(end.into()),
        };
        tokio::spawn(forward(session.clone(), target.clone(), tcp));
    }
}
