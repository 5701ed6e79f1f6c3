//! Delivery engine: one worker per deployment decides from desired state, journal and outcomes, and starts runs.

#[cfg(test)]
mod decide;
mod executor;
mod failure;
mod health;
mod log;
mod site;

pub(crate) use self::health::HealthPoll;
pub use self::{
    executor::{
        Applied, AppliedObject, CancelSignal, Executor, RunContext, SecretReader, SecretValues,
    },
    failure::{FailureClass, RunFailure},
    log::RunLog,
    site::SiteLimits,
};
