//! Rotation with overlap: the first use of a token ends the earlier tokens that it replaces, shortly afterwards.

use fairlead_store::{Actor, Draft, StoreError, model::Token};
use time::{Duration, OffsetDateTime};
use tracing::{info, warn};

use crate::registry::Registry;

/// Time for which earlier tokens stay valid: the previous pod of a rolling update may still run.
const REPLACED_TOKEN_TTL: Duration = Duration::minutes(10);

impl Registry {
    /// Ends the tokens that this one replaces, at its first use.
    pub(crate) fn end_replaced(&self, token: &Token) {
        if !token.replaces {
            return;
        }
        let (store, id, end) = (
            self.store.clone(),
            token.id.clone(),
            self.now() + REPLACED_TOKEN_TTL,
        );
        tokio::spawn(async move {
            let new = id.clone();
            let decide = move |draft: &mut Draft| end_earlier(draft, &new, end);
            match store.change(Actor::Hub, decide).await {
                Ok(done) => info!(
                    token = id,
                    ended = done.value,
                    "token replaced earlier ones"
                ),
                Err(error) => warn!(token = id, %error, "replaced tokens not ended"),
            }
        });
    }
}

/// Limits the expiry of earlier tokens of the same holder and creator; returns their number.
fn end_earlier(draft: &mut Draft, id: &str, end: OffsetDateTime) -> Result<usize, StoreError> {
    let Some(mut new) = draft.token(id).map(|it| it.value.clone()) else {
        return Ok(0);
    };
    if !new.replaces {
        return Ok(0);
    }
    let holder = |it: &Token| {
        (
            it.name.clone(),
            it.role,
            it.tenant.clone(),
            it.cluster.clone(),
            it.created_by.clone(),
        )
    };
    let own = holder(&new);
    let earlier = draft.tokens().map(|it| &it.value);
    let earlier = earlier.filter(|it| it.id != id && it.created <= new.created);
    let earlier = earlier.filter(|it| it.expires > end && holder(it) == own);
    let earlier: Vec<Token> = earlier.cloned().collect();
    let count = earlier.len();
    for mut token in earlier {
        token.expires = end;
        draft.put_token(token)?;
    }
    new.replaces = false;
    draft.put_token(new)?;
    Ok(count)
}
