//! A server that goes away and comes back.

use std::time::Duration;

use fairlead_api::{Code, Failure};

use crate::{rig::home_in, server::Server, *};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_wait_for_a_restart_and_give_up_when_it_takes_too_long() {
    let mut server = Server::start();
    let home = home_in(server.folder()).await;
    let store = open(&home).await;
    put_tenant(&store, tenant("t-before")).await.unwrap();

    server.stop();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { put_tenant(&store, tenant("t-meanwhile")).await })
    };
    assert!(
        store.view().tenant(&tenant_id("t-before")).is_some(),
        "reads go on"
    );
    let mut server = tokio::task::spawn_blocking(move || {
        server.resume();
        server
    })
    .await
    .unwrap();
    waiting.await.unwrap().unwrap();

    server.stop();
    let refused = put_tenant(&store, tenant("t-late")).await.unwrap_err();
    assert_eq!(Failure::from(refused).code, Code::StoreAway);
    let catalog = store.catalog(&cluster_id("c-demo")).await.unwrap_err();
    assert_eq!(Failure::from(catalog).code, Code::StoreAway);
    assert!(store.view().tenant(&tenant_id("t-late")).is_none());

    server.resume();
    put_tenant(&store, tenant("t-after")).await.unwrap();
    let revision = store.view().revision().0;
    assert_eq!(revision, 4, "what was refused has not happened");
    tokio::time::timeout(Duration::from_secs(10), store.close())
        .await
        .unwrap();
}
