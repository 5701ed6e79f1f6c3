//! Bootstrap tokens: spent by one key, together with the signature.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairlead_api::Code;
use fairlead_certs::CertsError;
use fairlead_control::enroll::{self, SpendError};

use crate::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_keys_that_race_for_one_token_exactly_one_wins() {
    let (store, _dir) = store().await;
    let demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo).await.unwrap();
    let signed = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..200_u8)
        .map(|key| {
            let (store, signed) = (store.clone(), Arc::clone(&signed));
            tokio::spawn(async move {
                let sign = move |_: &_| Ok(signed.fetch_add(1, Ordering::SeqCst));
                enroll::spend(&store, claim("c-demo", 1, key), NOW, sign).await
            })
        })
        .collect();
    let (mut won, mut lost) = (0, 0);
    for racer in racers {
        match racer.await.unwrap() {
            Ok(enrolled) => {
                assert!(!enrolled.again);
                won += 1;
            }
            Err(SpendError::Spent) => lost += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((won, lost), (1, 199));
    assert_eq!(
        signed.load(Ordering::SeqCst),
        1,
        "nothing was signed in vain"
    );
}

#[tokio::test]
async fn a_token_is_spent_by_one_key_once_current_and_in_time() {
    let (store, _dir) = store().await;
    let demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo).await.unwrap();
    let later = SOON - Duration::from_millis(1);
    let unknown = spend(&store, claim("c-none", 1, 1), NOW).await;
    assert!(matches!(unknown, Err(SpendError::Unknown)));
    let newer = spend(&store, claim("c-demo", 2, 1), NOW).await;
    assert!(matches!(newer, Err(SpendError::Unknown)));
    let mut other = claim("c-demo", 1, 1);
    other.expires = SOON + Duration::from_secs(1);
    let other = spend(&store, other, NOW).await;
    assert!(matches!(other, Err(SpendError::Unknown)));
    let late = spend(&store, claim("c-demo", 1, 1), SOON).await;
    assert!(matches!(late, Err(SpendError::Expired)));
    assert!(!spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap());
    assert!(
        spend(&store, claim("c-demo", 1, 1), later).await.unwrap(),
        "the same key again"
    );
    let thief = spend(&store, claim("c-demo", 1, 2), later).await;
    assert!(matches!(thief, Err(SpendError::Spent)));
    let late = spend(&store, claim("c-demo", 1, 1), SOON).await;
    assert!(
        matches!(late, Err(SpendError::Expired)),
        "the same key, but late"
    );
}

#[tokio::test]
async fn a_failed_signature_leaves_the_token_unspent() {
    let (store, _dir) = store().await;
    let demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo).await.unwrap();
    let refuse = |_: &_| Err::<(), _>(CertsError::ForeignName("c-other".to_owned()));
    let refused = enroll::spend(&store, claim("c-demo", 1, 1), NOW, refuse).await;
    assert!(matches!(refused, Err(SpendError::Sign(error)) if error.code() == Code::ForeignName));
    assert!(!spend(&store, claim("c-demo", 1, 2), NOW).await.unwrap());
}

#[tokio::test]
async fn a_new_bootstrap_token_ends_the_older_one() {
    let (store, _dir) = store().await;
    let mut demo = cluster("c-demo", "t-default");
    put_cluster(&store, demo.clone()).await.unwrap();
    spend(&store, claim("c-demo", 1, 1), NOW).await.unwrap();
    demo.binding.bootstrap = Bootstrap::new(2, SOON, None);
    put_cluster(&store, demo.clone()).await.unwrap();
    let older = spend(&store, claim("c-demo", 1, 1), NOW).await;
    assert!(
        matches!(older, Err(SpendError::Unknown)),
        "even for the key that spent it"
    );
    assert!(!spend(&store, claim("c-demo", 2, 2), NOW).await.unwrap());
    demo.binding.bootstrap = Bootstrap::new(3, SOON, None);
    demo.binding.bootstrap.revoked = true;
    put_cluster(&store, demo).await.unwrap();
    let revoked = spend(&store, claim("c-demo", 3, 3), NOW).await;
    assert!(matches!(revoked, Err(SpendError::Unknown)));
}
