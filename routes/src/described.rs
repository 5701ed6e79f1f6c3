//! Check of debug builds: a handler reads only query parameters that its route describes.

use std::sync::Arc;

tokio::task_local! {
    /// Names of the running route's query parameters.
    static DESCRIBED: Arc<[&'static str]>;
}

/// Runs a handler with the names of its described parameters.
pub(super) async fn within<F: Future>(names: Arc<[&'static str]>, handler: F) -> F::Output {
    DESCRIBED.scope(names, handler).await
}

/// Checks a parameter that a handler reads.
///
/// # Panics
/// If the running route does not describe it.
pub(crate) fn check(name: &str) {
    let is_described = DESCRIBED.try_with(|names| names.contains(&name));
    // No route runs in unit tests of readers.
    let is_described = is_described.unwrap_or(true);
    assert!(is_described, "/openapi.json does not describe {name} here");
}
