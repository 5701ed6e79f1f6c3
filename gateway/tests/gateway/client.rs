//! Actions of a client, and conditions to wait for.

use fairlead_api::{
    ClusterId,
    resources::{ClusterState, ClusterStatus},
};
use fairlead_testkit::raw::ByteStream;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

pub(crate) use fairlead_testkit::wait::until;

use crate::rig::{HUB, Rig, TEST_DEADLINE};

pub(crate) const ROOT: &str = "/k8s/clusters/c-a";

/// A request head for the cluster.
pub(crate) fn head(method: &str, path: &str, headers: &str) -> String {
    format!(
        "{method} {ROOT}{path} HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer good\r\n{headers}\r\n"
    )
}

pub(crate) async fn open(rig: &Rig, request: &str) -> Box<dyn ByteStream> {
    let mut tls = rig.connect(HUB, "http/1.1").await;
    tls.write_all(request.as_bytes()).await.unwrap();
    tls.flush().await.unwrap();
    tls
}

/// Reads until these bytes have come.
pub(crate) async fn read_until(tls: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            match tls.read(&mut byte).await {
                Ok(1) => read.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&read)),
            }
        }
    };
    timeout(TEST_DEADLINE, reading).await.expect(end);
    String::from_utf8(read).unwrap()
}

/// Reads to the end; the text, and the result of the last read.
pub(crate) async fn rest(
    tls: &mut (impl AsyncReadExt + Unpin),
) -> (String, std::io::Result<usize>) {
    let mut read = Vec::new();
    let ended = timeout(TEST_DEADLINE, tls.read_to_end(&mut read))
        .await
        .unwrap();
    (String::from_utf8(read).unwrap(), ended)
}

pub(crate) async fn status(rig: &Rig, state: ClusterState) -> ClusterStatus {
    let cluster: ClusterId = "c-a".parse().unwrap();
    let mut reported = rig.modules.reported.subscribe();
    let waiting = reported.wait_for(|all| all.get(&cluster).is_some_and(|s| s.state == state));
    let all = timeout(TEST_DEADLINE, waiting)
        .await
        .expect("the status")
        .unwrap();
    all[&cluster].clone()
}

/// Asserts that no request, session or connection is left.
pub(crate) async fn all_back_to_zero(rig: &Rig) {
    assert!(
        rig.process.finish(TEST_DEADLINE).await,
        "everything ends by itself"
    );
    for gauge in [
        "fairlead_front_connections",
        "fairlead_requests_open",
        "fairlead_sessions",
        "fairlead_streams_open",
        "fairlead_upgrades_open",
    ] {
        assert_eq!(rig.metric(gauge, &[]), 0.0, "{gauge}");
    }
}
