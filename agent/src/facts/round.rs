//! One run of one collector over its sources.

use tracing::debug;

use super::{
    collector::{Collector, Round},
    read::{self, Miss},
};
use crate::upstream::Upstream;

/// Runs `collector` once. None if the API server failed in between: what was known goes on to be.
pub(super) async fn round(upstream: &Upstream, mut collector: Box<dyn Collector>) -> Option<Round> {
    let (mut forbidden, mut unread) = (Vec::new(), 0);
    for (at, source) in collector.sources().into_iter().enumerate() {
        let mut odd = 0;
        let mut take = |object: &[u8]| {
            if let Err(error) = collector.take(at, object) {
                debug!(path = source.path, %error, "an object of the API server was not understood");
                odd += 1;
            }
        };
        match read::each(upstream, &source, &mut take).await {
            Ok(too_long) => unread += odd + too_long,
            Err(Miss::Absent) => {}
            Err(Miss::Forbidden) if forbidden.contains(&source.right) => {}
            Err(Miss::Forbidden) => forbidden.push(source.right),
            Err(Miss::Failed(cause)) => {
                debug!(path = source.path, cause, "not read for facts");
                return None;
            }
        }
    }
    Some(Round {
        told: collector.tell(),
        forbidden,
        unread,
    })
}
