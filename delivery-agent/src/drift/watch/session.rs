//! One watch, from its opening to its end.

use crate::{
    drift::api::ObjectApi,
    kube::{KubeError, Query, WatchEvent},
};
use serde_json::Value;

/// News of a watch.
pub(crate) enum Notice<'a> {
    /// The watch is open.
    Open,
    /// Metadata of an object.
    Present(&'a Value),
    /// An object was deleted, or left the selection.
    Ended(&'a Value),
    /// All objects have been sent since the last full list.
    Listed,
}

/// End of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WatchEnd {
    /// The API server ended it; it goes on from the same version.
    Ended,
    /// The version is too old: list again.
    Expired,
    /// The account may not watch, or the kind cannot be watched.
    Forbidden,
    /// Failed; try again later.
    Failed(KubeError),
}

/// Position of a watch in the history of a collection.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// Version; `""` before the first list.
    version: String,
    /// True: the API server sends no initial events, so that a list comes first.
    must_list: bool,
}

/// Follows a collection until its watch ends.
pub(crate) async fn watch(
    api: &dyn ObjectApi,
    path: &str,
    query: &Query,
    position: &mut Position,
    notify: &mut (dyn FnMut(Notice<'_>) + Send),
) -> WatchEnd {
    match follow(api, path, query, position, notify).await {
        Ok(()) => WatchEnd::Ended,
        Err(error) => match error.status() {
            Some(410) => {
                position.version.clear();
                WatchEnd::Expired
            }
            Some(403 | 405) => WatchEnd::Forbidden,
            // Kubernetes before 1.32, or with the feature WatchList off.
            Some(400 | 422) if !position.must_list && position.version.is_empty() => {
                position.must_list = true;
                WatchEnd::Expired
            }
            _ => WatchEnd::Failed(error),
        },
    }
}

async fn follow(
    api: &dyn ObjectApi,
    path: &str,
    query: &Query,
    position: &mut Position,
    notify: &mut (dyn FnMut(Notice<'_>) + Send),
) -> Result<(), KubeError> {
    if position.version.is_empty() && position.must_list {
        let list = api.list(path, query).await?.unwrap_or_default();
        list.items.iter().for_each(|it| notify(Notice::Present(it)));
        notify(Notice::Listed);
        position.version = list.resource_version;
    }
    let mut is_listed = !position.version.is_empty();
    let mut watch = api.watch(path, query, &position.version).await?;
    notify(Notice::Open);
    while let Some(event) = watch.next().await? {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                notify(Notice::Present(object));
                version(object)
            }
            WatchEvent::Deleted(object) => {
                notify(Notice::Ended(object));
                version(object)
            }
            WatchEvent::Bookmark {
                resource_version,
                initial_end,
            } => {
                if *initial_end {
                    is_listed = true;
                    notify(Notice::Listed);
                }
                resource_version
            }
        };
        // A cut during the initial objects begins again.
        if is_listed && !version.is_empty() {
            version.clone_into(&mut position.version);
        }
    }
    Ok(())
}

fn version(object: &Value) -> &str {
    let version = object.pointer("/metadata/resourceVersion");
    version.and_then(Value::as_str).unwrap_or_default()
}
