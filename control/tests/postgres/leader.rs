//! Leadership of hubs on one database, and the list of their addresses for agents.

use fairlead_testkit::wait;

use crate::*;

const ONE: &str = "https://one.example.com";
const TWO: &str = "https://two.example.com";

/// Ends the session with the lock, as the server does when its client is silent. Other tests hold such locks in their
/// own databases of the same server.
const END_LEADER: &str = "SELECT pg_terminate_backend(locks.pid)
    FROM pg_locks locks JOIN pg_database ON pg_database.oid = locks.database
    WHERE locks.locktype = 'advisory' AND locks.granted AND pg_database.datname = current_database()";

async fn until(mut holds: impl FnMut() -> bool) {
    wait::until(async || holds()).await;
}

#[tokio::test]
async fn one_hub_leads_until_it_resigns_or_ends() {
    let (one, home) = store().await;
    assert!(!one.leads(), "it is no hub yet");
    begin(&one, ONE).await;
    until(|| one.leads()).await;
    let two = open(&home).await;
    begin(&two, TWO).await;
    one.resign();
    until(|| two.leads()).await;
    assert!(!one.leads());
    let three = open(&home).await;
    begin(&three, "https://three.example.com").await;
    two.close().await;
    until(|| three.leads()).await;
}

#[tokio::test]
async fn leader_without_its_session_stops_and_one_of_all_leads_again() {
    let (one, home) = store().await;
    begin(&one, ONE).await;
    until(|| one.leads()).await;
    let two = open(&home).await;
    begin(&two, TWO).await;
    home.execute(END_LEADER).await;
    // Either hub gets the lock, never both.
    one.resign();
    until(|| two.leads()).await;
    assert!(!one.leads());
}

#[tokio::test]
async fn hubs_with_urls_of_their_own_list_the_same_addresses() {
    let (one, home) = store().await;
    begin(&one, ONE).await;
    assert_eq!(one.agent_hubs().list, None, "an only hub");
    let two = open(&home).await;
    begin(&two, TWO).await;
    let both = format!("{ONE},{TWO}");
    for store in [&one, &two] {
        until(|| store.agent_hubs().list.as_deref() == Some(&*both)).await;
    }
    let own = two.agent_hubs().own.clone();
    assert_eq!(own.map(|url| url.to_string()).as_deref(), Some(TWO));
    // Behind one load balancer, neither is listed.
    let three = open(&home).await;
    begin(&three, TWO).await;
    until(|| two.agent_hubs().list.as_deref() == Some(ONE)).await;
    assert_eq!(two.agent_hubs().own, None);
}
