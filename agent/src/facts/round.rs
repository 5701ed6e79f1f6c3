//! One run of one collector over its sources.

use tracing::debug;

use super::{
    collector::{CollectionRound, Collector},
    read::{self, ReadError},
};
use fairlead_apiserver::Upstream;

/// Runs `collector` once. None if the API server failed during the run: the known facts stay.
pub(super) async fn run_collector(
    upstream: &Upstream,
    mut collector: Box<dyn Collector>,
) -> Option<CollectionRound> {
    let (mut forbidden, mut unread) = (Vec::new(), 0);
    for (index, source) in collector.sources().into_iter().enumerate() {
        let mut rejected = 0;
        let mut take = |object: &[u8]| {
            if let Err(error) = collector.take(index, object) {
                debug!(path = source.path, %error, "invalid object skipped");
                rejected += 1;
            }
        };
        match read::for_each(upstream, &source, &mut take).await {
            Ok(too_long) => unread += rejected + too_long,
            Err(ReadError::Absent) => {}
            Err(ReadError::Forbidden) if forbidden.contains(&source.right) => {}
            Err(ReadError::Forbidden) => forbidden.push(source.right),
            Err(ReadError::Failed(cause)) => {
                debug!(path = source.path, cause, "fact source not read");
                return None;
            }
        }
    }
    Some(CollectionRound {
        facts: collector.finish(),
        forbidden,
        unread,
    })
}
