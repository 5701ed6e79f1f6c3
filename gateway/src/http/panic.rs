//! Panics while a request is answered: a bug of ours, logged and answered with `FL-5101`.

use std::any::Any;

use fairlead_api::{Code, Failure};
use tracing::error;

/// Logs the panic of a request's handler and returns the failure to answer with.
pub(crate) fn failure_of(request: &str, panic: &(dyn Any + Send)) -> Failure {
    error!(request, panic = message(panic), "request handler panicked");
    Failure::new(Code::Internal)
}

/// The message of a panic, where it is text.
pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
