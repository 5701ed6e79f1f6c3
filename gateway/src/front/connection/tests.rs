//! Tests of `connection`.

use super::*;
use crate::front::samples::caller;

fn connection() -> (StrangerPools, Arc<ConnectionState>) {
    let pools = StrangerPools::default();
    let state = ConnectionState::new(&pools, "192.0.2.1:1".parse().unwrap());
    (pools, state)
}

async fn close_cause(pools: &StrangerPools, state: &ConnectionState) -> (CloseCause, u64) {
    let slot = pools.connection([192, 0, 2, 1].into());
    let opened = Instant::now();
    let cause = state.close_cause(slot, Duration::from_secs(100)).await;
    (cause, opened.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_head_is_closed_after_ten_seconds() {
    let (pools, state) = connection();
    let closed = close_cause(&pools, &state).await;
    assert_eq!(closed, (CloseCause::NoRequest, 10));
}

#[tokio::test(start_paused = true)]
async fn connection_without_an_authenticated_request_is_closed_after_a_minute() {
    let (pools, state) = connection();
    let requests = async {
        loop {
            state.request_begun();
            sleep(Duration::from_secs(3)).await;
            state.request_ended();
        }
    };
    let closed = tokio::select! {
        closed = close_cause(&pools, &state) => closed,
        () = requests => unreachable!(),
    };
    assert_eq!(closed, (CloseCause::NotAuthenticated, 60));
}

#[tokio::test(start_paused = true)]
async fn running_request_of_a_stranger_ends_with_the_lifetime() {
    let (pools, state) = connection();
    state.request_begun();
    let closed = close_cause(&pools, &state).await;
    assert_eq!(closed, (CloseCause::NotAuthenticated, 60));
}

#[tokio::test(start_paused = true)]
async fn idle_http2_connection_of_a_stranger_is_closed_after_its_request() {
    let (pools, state) = connection();
    state.set_http2();
    state.request_begun();
    state.request_ended();
    let (cause, seconds) = close_cause(&pools, &state).await;
    assert_eq!(cause, CloseCause::NoRequest);
    assert!(seconds <= 20, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn authenticated_http2_connection_is_closed_when_idle() {
    let (pools, state) = connection();
    state.set_http2();
    state.request_begun();
    state.set_known(&caller("ann"));
    let ending = async {
        sleep(Duration::from_secs(450)).await;
        state.request_ended();
    };
    let (closed, ()) = tokio::join!(close_cause(&pools, &state), ending);
    assert_eq!(closed, (CloseCause::Idle, 600));
}

#[tokio::test(start_paused = true)]
async fn client_of_a_service_is_closed_when_idle_and_no_earlier() {
    let (pools, state) = connection();
    state.request_begun();
    state.set_service_client(&caller("service:web"));
    let ending = async {
        sleep(Duration::from_secs(300)).await;
        state.request_ended();
    };
    let ((cause, seconds), ()) = tokio::join!(close_cause(&pools, &state), ending);
    assert_eq!(cause, CloseCause::NoRequest);
    assert!((310..=320).contains(&seconds), "{seconds}");
}

#[test]
fn large_first_heads_share_the_memory_of_strangers() {
    let (pools, state) = connection();
    let mut read = 0;
    while read < FREE_HEAD_BYTES {
        assert!(state.count_head(read, 4096));
        read += 4096;
    }
    assert_eq!(pools.memory([192, 0, 2, 1].into()).used(), 0);
    while state.count_head(read, 4096) {
        read += 4096;
    }
    assert_eq!(
        read,
        FREE_HEAD_BYTES + 4 * 1024 * 1024,
        "half of the budget"
    );
    state.request_begun();
    assert_eq!(pools.memory([192, 0, 2, 1].into()).used(), 0);
}

#[test]
fn http2_connection_of_a_stranger_is_read_up_to_a_limit() {
    let (_pools, state) = connection();
    let cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(
        !state.pauses_reading(MAX_STRANGER_H2_BYTES, &cx),
        "HTTP/1.1"
    );
    state.set_http2();
    assert!(state.pauses_reading(MAX_STRANGER_H2_BYTES, &cx));
    state.set_known(&caller("ann"));
    assert!(!state.pauses_reading(MAX_STRANGER_H2_BYTES, &cx));
}

#[test]
fn unread_bytes_of_an_http2_stranger_count_as_memory_until_it_is_known() {
    let pools = StrangerPools::default();
    let waker = futures_util::task::noop_waker();
    let cx = std::task::Context::from_waker(&waker);
    let open = || {
        let state = ConnectionState::new(&pools, "192.0.2.1:1".parse().unwrap());
        state.set_http2();
        state.request_begun();
        state
    };
    let read_all = |state: &ConnectionState| {
        let mut read = 0;
        while read < MAX_STRANGER_H2_BYTES && !state.pauses_reading(read, &cx) {
            read += STRANGER_READ_BYTES;
        }
        read
    };
    let all: Vec<_> = (0..200).map(|_| open()).collect();
    let unread: usize = all.iter().map(|state| read_all(state)).sum();
    let most = 4 * 1024 * 1024 + all.len() * FREE_HEAD_BYTES;
    assert!(unread <= most, "{unread} bytes of one address");
    // A caller's token is in the first bytes, so a caller is never paused for long.
    let last = all.last().unwrap();
    assert!(last.pauses_reading(FREE_HEAD_BYTES, &cx));
    last.set_known(&caller("ann"));
    assert!(!last.pauses_reading(MAX_STRANGER_H2_BYTES, &cx));
    drop(all);
    assert_eq!(
        read_all(&open()),
        MAX_STRANGER_H2_BYTES,
        "memory is given back"
    );
}
