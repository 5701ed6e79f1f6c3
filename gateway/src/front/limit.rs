//! The step that limits concurrent requests of one caller.

use fairlead_api::Failure;

use crate::{
    front::{authenticate::Known, record::Inbound},
    hub::Hub,
};

/// Takes a slot of the caller until the answer's last byte: a watch counts for as long as it runs.
///
/// # Errors
/// `FL-1407`.
pub(crate) fn limit<T>(hub: &Hub, known: Known<T>) -> Result<Known<T>, Failure>
where
    T: AsRef<Inbound>,
{
    let share = hub.shares.take(&known.caller.name)?;
    known.asked.as_ref().record.hold(share);
    Ok(known)
}
