//! The step that limits concurrent requests of one caller.

use crate::{
    front::{authenticate::AuthenticatedRequest, record::Inbound},
    hub::Hub,
};
use fairlead_seam::AuthenticateError;

/// Takes a slot of the caller until the answer's last byte: a watch counts for as long as it runs.
///
/// # Errors
/// [`AuthenticateError::TooManyRequests`]
pub(crate) fn limit<T>(
    hub: &Hub,
    authenticated: AuthenticatedRequest<T>,
) -> Result<AuthenticatedRequest<T>, AuthenticateError>
where
    T: AsRef<Inbound>,
{
    let share = hub.caller_limit.acquire(&authenticated.caller)?;
    authenticated.request.as_ref().record.keep_slot(share);
    Ok(authenticated)
}
