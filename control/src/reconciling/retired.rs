//! Handlers for the parts of deleted owners that their server has not ended yet: a list, and the
//! removal of an entry, so that the part stays as it is.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use fairlead_registry::{RegistryError, allow, by};
use fairlead_routes::{
    Right,
    reply::{Answer, Authenticated},
};
use fairlead_store::{Draft, Store, StoreError, View};
use http::StatusCode;

/// Retired parts of one kind.
pub(crate) trait RetiredParts: Send + Sync + 'static {
    /// Right to list and to keep them.
    const RIGHT: Right;
    /// Document with all of them.
    type Shown;

    fn store(&self) -> &Store;

    fn shown(view: &View) -> Self::Shown;

    /// # Errors
    /// [`StoreError::Missing`] without such an entry.
    fn remove(draft: &mut Draft, id: &str) -> Result<(), StoreError>;

    fn missing(id: String) -> RegistryError;

    /// Logs that a caller has kept a part.
    fn log_kept(id: &str, caller: &str);
}

pub(crate) async fn list<P: RetiredParts>(
    State(parts): State<Arc<P>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<P::Shown>> {
    allow(&caller, P::RIGHT)?;
    Ok(Json(P::shown(&parts.store().view())))
}

pub(crate) async fn keep<P: RetiredParts>(
    State(parts): State<Arc<P>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    allow(&caller, P::RIGHT)?;
    let gone = id.clone();
    let decide = move |draft: &mut Draft| match P::remove(draft, &gone) {
        Err(StoreError::Missing) => Err(P::missing(gone.clone())),
        done => Ok(done?),
    };
    parts.store().change(by(&caller), decide).await?;
    P::log_kept(&id, &caller.name);
    Ok(StatusCode::NO_CONTENT)
}
