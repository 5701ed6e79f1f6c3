//! Agent behind a firewall: serves a page, and TCP connections to one target.
//!
//! `cargo run -p fairlead-dialer --example agent -- HUB_URL TARGET FOLDER`

use std::{convert::Infallible, env::args, error::Error, path::Path};

use bytes::Bytes;
use fairlead_dialer::{
    Dialer, HubUrl,
    tunnel::{AgentTls, SessionSupervisor, StreamServer},
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::service_fn;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = args().skip(1).collect();
    let [hub, target, folder] = args.as_slice() else {
        return Err("usage: agent HUB_URL TARGET FOLDER".into());
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let hub: HubUrl = hub.parse()?;
    let file = |name| Path::new(folder).join(name);
    // Its own certificate and key, and the hub's certificate or authority.
    let tls = AgentTls::from_files(file("agent.pem"), file("agent.key"), file("hub.pem"))?;
    // Its fields set a proxy, or limits.
    let dialer = Dialer::new(tls.outer);

    // Any `tower::Service` of HTTP requests, such as a router of axum.
    let page = service_fn(|request: Request<Incoming>| async move {
        let text = format!("{} behind the firewall", request.uri().path());
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
    });
    let target = target.clone();
    let server = StreamServer::new(page).allow_targets(move |requested| requested == target);
    match SessionSupervisor::new(dialer, hub, tls.inner)
        .run(server)
        .await {}
}
