//! Redirects of a cluster that lies, with real kubectl: no token leaves for another place.

#![allow(
    clippy::large_futures,
    reason = "a test waits for one future at a time"
)]

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Kubectl};
use fairlead_testkit::agent::FakeAgent;
use tokio::{io::AsyncReadExt, net::TcpListener};

/// A plain HTTP server that keeps the first bytes of each connection and answers nothing.
async fn thief() -> anyhow::Result<(SocketAddr, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let stolen = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&stolen);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let read = socket.read(&mut head).await.unwrap_or_default();
            head.truncate(read);
            let text = String::from_utf8_lossy(&head).into_owned();
            kept.lock().expect("not poisoned").push(text);
        }
    });
    Ok((address, stolen))
}

fn redirect(agent: &FakeAgent, status: u16, target: &str) {
    let headers = vec![("location", target.to_owned())];
    *agent.api.redirect.lock().expect("not poisoned") = (status, headers);
}

async fn raw(kubectl: &Kubectl, verb: &str) -> anyhow::Result<(bool, String)> {
    let call = kubectl.clone().args([verb, "--raw", "/redirect"]);
    let output = call.run().await?;
    let said = format!("{}{}", output.text(), output.stderr);
    Ok((output.status.success(), said))
}

#[tokio::test]
async fn token_does_not_follow_a_redirect_out_of_its_cluster() -> anyhow::Result<()> {
    let cluster = Cluster::start_lite().await?;
    let hub = Hub::start().await?;
    let joining = hub.create_cluster("liar").await?;
    let victim = hub.create_cluster("victim").await?.id;
    let agent = FakeAgent::enrolled(&joining.join, Path::new(&hub.ready().ca_file)).await;
    hub.wait_state(&joining.id, "Connected").await?;
    let (thief, stolen) = thief().await?;
    let public = hub.ready().url.clone();
    for address in ["path", "name"] {
        let kubeconfig = hub.kubeconfig("liar.yaml", &["--address", address]).await?;
        let kubectl = cluster.kubectl().kubeconfig(kubeconfig);
        let kubectl = kubectl.context(hub.context("liar"));
        for target in [
            format!("http://{thief}/"),
            format!("https://{thief}/"),
            format!("//{thief}/"),
            format!("{public}/clusters/{victim}"),
            format!("{public}/k8s/clusters/{victim}/api/v1/secrets"),
            format!("/../{victim}/api"),
        ] {
            for verb in ["get", "delete"] {
                redirect(&agent, 307, &target);
                let (ok, said) = raw(&kubectl, verb).await?;
                ensure!(!ok && said.contains("FL-1507"), "{verb} {target}: {said}");
            }
        }
        // A path of the cluster itself is followed.
        redirect(&agent, 307, "/moved/here");
        let (ok, said) = raw(&kubectl, "get").await?;
        ensure!(ok && said.contains("/moved/here"), "{said}");
    }
    ensure!(
        stolen.lock().expect("not poisoned").is_empty(),
        "{stolen:?}"
    );
    hub.cluster("victim").await?;
    Ok(())
}
