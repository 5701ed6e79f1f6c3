//! Tests of `wrong_tokens`.

use super::*;

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[tokio::test(start_paused = true)]
async fn addresses_have_separate_rate_limits() {
    let wrong = WrongTokens::default();
    for _ in 0..MAX_WRONG_TOKENS {
        assert_eq!(wrong.count(v4(1)), Ok(()));
    }
    assert_eq!(wrong.count(v4(1)), Err(TooManyWrongTokens));
    assert_eq!(wrong.count(v4(2)), Ok(()));
    tokio::time::advance(RATE_WINDOW).await;
    assert_eq!(wrong.count(v4(1)), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn many_wrong_tokens_of_one_address_are_logged_once_a_minute() {
    let wrong = WrongTokens::default();
    for _ in 0..3 {
        let firsts = (0..10_000).filter(|_| wrong.increment(v4(1)).0 == 1);
        assert_eq!(firsts.count(), 1);
        tokio::time::advance(RATE_WINDOW).await;
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_recovers() {
    let wrong = WrongTokens::default();
    for n in 0..2 * u32::try_from(MAX_ADDRESSES).unwrap() {
        let _ = wrong.count(IpAddr::from(n.to_be_bytes()));
    }
    assert!(wrong.0.lock().unwrap().len() <= MAX_ADDRESSES + 1);
    assert_eq!(
        wrong.count(v4(9)),
        Err(TooManyWrongTokens),
        "the many count as one"
    );
    tokio::time::advance(RATE_WINDOW).await;
    assert_eq!(wrong.count(v4(9)), Ok(()));
    assert_eq!(wrong.0.lock().unwrap().len(), 1);
}
