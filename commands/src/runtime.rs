//! Runtime of short-lived commands.

use std::future::Future;

use fairlead_api::{Code, Failure};
use fairlead_runtime::workers;

/// Runs a short-lived command on a runtime of one thread.
///
/// # Errors
///
/// [`Code::Internal`]: the system gives no runtime.
pub fn block_on<F: Future>(command: F) -> Result<F::Output, Failure> {
    let runtime = workers::single().map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(runtime.block_on(command))
}
