//! Keys of an issuer: fetched, cached, rotated, and an issuer that does not give them.

use super::*;

#[tokio::test]
async fn new_keys_are_found_and_withdrawn_keys_rejected() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let ops = |name: &str| claims(&idp, json!({ "sub": name, "groups": ["ops"] }));
    let first = |name: &str| idp.sign(&ops(name));
    issuers
        .vouch(&first("one"), FROM, NOW)
        .await
        .unwrap()
        .unwrap();
    let old = first("two");
    idp.rotate();
    let new = idp.sign(&ops("three"));
    // Fetches are rate limited, whichever keys tokens name.
    assert_eq!(
        issuers.vouch(&new, FROM, NOW).await.unwrap_err().code(),
        Code::BadToken
    );
    later(11).await;
    issuers.vouch(&new, FROM, NOW).await.unwrap().unwrap();
    assert_eq!(
        issuers.vouch(&old, FROM, NOW).await.unwrap_err().code(),
        Code::BadToken
    );
}

#[tokio::test]
async fn guessed_tokens_do_not_cause_a_fetch_each() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let ops = claims(&idp, json!({ "groups": ["ops"] }));
    let under_a_key_that_is_gone = idp.sign(&ops);
    idp.rotate();
    let under_a_known_key = idp.sign_with_unknown_key(&ops);
    let first = issuers.vouch(&under_a_known_key, FROM, NOW).await;
    assert_eq!(first.unwrap_err().code(), Code::BadToken);
    // The keys are cached now; with the clock paused, the refetch interval does not elapse.
    tokio::time::pause();
    for _ in 0..500 {
        for wrong in [&under_a_known_key, &under_a_key_that_is_gone] {
            let failure = issuers.vouch(wrong, FROM, NOW).await.unwrap_err();
            assert_eq!(failure.code(), Code::BadToken);
        }
    }
    assert_eq!(idp.requests().len(), 2, "{:?}", idp.requests());
}

#[tokio::test]
async fn an_unreachable_issuer_is_an_outage_not_a_rejection() {
    let idp = Idp::start().await;
    let issuers = idp.issuers("");
    let ops = |name: &str| claims(&idp, json!({ "sub": name, "groups": ["ops"] }));
    idp.down(true);
    let token = idp.sign(&ops("one"));
    let failure = issuers.vouch(&token, FROM, NOW).await.unwrap_err();
    assert_eq!(failure.code(), Code::IssuerDown, "{failure}");
    idp.down(false);
    later(11).await;
    issuers.vouch(&token, FROM, NOW).await.unwrap().unwrap();
    // Known keys stay trusted for a day.
    idp.down(true);
    later(3600).await;
    issuers
        .vouch(&idp.sign(&ops("two")), FROM, NOW)
        .await
        .unwrap()
        .unwrap();
    idp.rotate();
    later(11).await;
    let failure = issuers
        .vouch(&idp.sign(&ops("three")), FROM, NOW)
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Code::IssuerDown, "{failure}");
}

#[tokio::test]
async fn a_hanging_issuer_delays_one_caller_with_a_known_key() {
    let idp = Idp::start().await;
    let issuers = Arc::new(idp.issuers(""));
    let token = |name: &str| idp.sign(&claims(&idp, json!({ "sub": name, "groups": ["ops"] })));
    let first = issuers.vouch(&token("one"), FROM, NOW).await;
    assert!(first.unwrap().is_some());
    later(3600).await;
    idp.hang();
    let (requester, asking) = (token("two"), Arc::clone(&issuers));
    let asking = tokio::spawn(async move { asking.vouch(&requester, FROM, NOW).await });
    idp.wait_for_requests(3).await;
    // From here on, waiting would advance the paused clock.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    for name in ["three", "four"] {
        let vouched = issuers.vouch(&token(name), FROM, NOW).await;
        assert!(vouched.unwrap().is_some(), "{name}");
    }
    assert_eq!(begun.elapsed(), std::time::Duration::ZERO);
    assert!(asking.await.unwrap().unwrap().is_some());
    let vouched = issuers.vouch(&token("five"), FROM, NOW).await;
    assert!(vouched.unwrap().is_some());
    assert_eq!(idp.requests().len(), 3, "failed fetches are rate limited");
}

#[tokio::test]
async fn foreign_discovery_documents_and_redirects_are_rejected() {
    let idp = Idp::start().await;
    idp.claim_to_be("https://other.example");
    let token = idp.sign(&claims(&idp, json!({ "groups": ["ops"] })));
    let failure = idp.issuers("").vouch(&token, FROM, NOW).await.unwrap_err();
    assert_eq!(failure.code(), Code::IssuerDown, "{failure}");
    assert!(failure.to_string().contains("other.example"), "{failure}");
    let idp = Idp::start().await;
    idp.redirect();
    let token = idp.sign(&claims(&idp, json!({ "groups": ["ops"] })));
    let failure = idp.issuers("").vouch(&token, FROM, NOW).await.unwrap_err();
    assert!(failure.to_string().contains("302"), "{failure}");
    assert_eq!(idp.requests().len(), 1);
}

#[tokio::test]
async fn keys_are_read_from_a_file() {
    let idp = Idp::start().await;
    let issuers = idp.issuers_with_keys_file();
    let token = idp.sign(&claims(&idp, json!({ "groups": ["ops"] })));
    assert!(issuers.vouch(&token, FROM, NOW).await.unwrap().is_some());
    assert!(idp.requests().is_empty());
}

/// Advances the clock.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
