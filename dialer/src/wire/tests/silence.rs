//! Signs of life: messages of the peer's link count, frames that a middlebox could have made do
//! not.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, sleep},
};

use super::{
    hostile::{by_hand, message},
    rig::WireEnd,
};
use crate::link::frame::Frame;

/// Ping of a hub, unmasked.
const PING: &[u8] = &[0x89, 0];
const PONG: &[u8] = &[0x8a, 0];
/// Head of a message of 16,000 bytes.
const HEAD: &[u8] = &[0x82, 126, 0x3e, 0x80];
const SILENCE_TIMEOUT: Duration = Duration::from_millis(10_500);

/// Sends the pieces at this interval, then stays silent.
async fn says(mut far: DuplexStream, pieces: Vec<Vec<u8>>, every: Duration) {
    let mut heard = [0; 1024];
    for piece in pieces {
        let pause = sleep(every);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                read = far.read(&mut heard) => if !matches!(read, Ok(1..)) {
                    return;
                },
            }
        }
        if far.write_all(&piece).await.is_err() {
            return;
        }
    }
    while matches!(far.read(&mut heard).await, Ok(1..)) {}
}

/// Time until an agent gives up a peer that sends this.
async fn believed(pieces: Vec<Vec<u8>>, every: Duration) -> Duration {
    let (agent, far) = by_hand().await;
    let agent = WireEnd::drive(agent, 1000);
    let start = Instant::now();
    let peer = tokio::spawn(says(far, pieces, every));
    agent.down().await;
    let believed = start.elapsed();
    peer.await.unwrap();
    believed
}

fn about(expected: Duration, was: Duration) {
    let (least, most) = (expected, expected + Duration::from_millis(100));
    assert!((least..most).contains(&was), "{was:?}");
}

#[tokio::test(start_paused = true)]
async fn pings_of_a_middlebox_keep_no_link_alive() {
    let pings = vec![PING.to_vec(); 100];
    about(
        SILENCE_TIMEOUT,
        believed(pings, Duration::from_secs(5)).await,
    );
}

#[tokio::test(start_paused = true)]
async fn pongs_of_a_middlebox_keep_no_link_alive() {
    let pongs = vec![PONG.to_vec(); 100];
    about(
        SILENCE_TIMEOUT,
        believed(pongs, Duration::from_secs(9)).await,
    );
}

/// Not even if it cuts them into pieces.
#[tokio::test(start_paused = true)]
async fn partial_ping_is_no_sign_of_life() {
    let halves = PING.iter().cycle().take(100).map(|&byte| vec![byte]);
    about(
        SILENCE_TIMEOUT,
        believed(halves.collect(), Duration::from_secs(3)).await,
    );
}

/// On a path so slow that one message takes a minute.
#[tokio::test(start_paused = true)]
async fn slow_message_is_a_sign_of_life_while_it_arrives() {
    let every = Duration::from_secs(8);
    let mut pieces = vec![HEAD.to_vec()];
    pieces.extend(vec![vec![0]; 8]);
    let came = every * 9;
    about(came + SILENCE_TIMEOUT, believed(pieces, every).await);
}

/// The peer receives nothing, so it gives up first; until then its messages count.
#[tokio::test(start_paused = true)]
async fn peer_that_sends_data_without_acknowledgements_is_alive() {
    let (agent, mut far) = by_hand().await;
    let count = agent.counts().0;
    let agent = WireEnd::drive(agent, 1000);
    for _ in 0..10 {
        sleep(Duration::from_secs(8)).await;
        far.write_all(&message(&Frame::Probe(count))).await.unwrap();
    }
    assert!(agent.is_up());
    let start = Instant::now();
    agent.down().await;
    about(SILENCE_TIMEOUT, start.elapsed());
    drop((agent, far));
}
