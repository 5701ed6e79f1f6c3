//! The step that limits concurrent requests of one caller.

use fairlead_api::Failure;

use crate::{
    front::{authenticate::Authenticated, record::Inbound},
    hub::Hub,
};

/// Takes a slot of the caller until the answer's last byte: a watch counts for as long as it runs.
///
/// # Errors
/// `FL-1407`.
pub(crate) fn limit<T>(
    hub: &Hub,
    authenticated: Authenticated<T>,
) -> Result<Authenticated<T>, Failure>
where
    T: AsRef<Inbound>,
{
    let share = hub.caller_limit.acquire(&authenticated.caller.name)?;
    authenticated.request.as_ref().record.keep(share);
    Ok(authenticated)
}
