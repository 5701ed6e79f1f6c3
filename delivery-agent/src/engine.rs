//! Delivery engine: one worker per deployment decides from desired state, journal and outcomes, and starts runs.

mod attempt;
mod decide;
mod executor;
mod failure;
mod health;
mod log;
mod observer;
mod shared;
mod site;
mod supervisor;
mod worker;

pub use self::{
    executor::{
        Applied, AppliedObject, CancelSignal, Executor, RunContext, SecretReader, SecretValues,
    },
    failure::{FailureClass, RunFailure},
    log::RunLog,
    shared::Executors,
    site::SiteLimits,
};
pub(crate) use self::{
    health::HealthPoll, observer::Observer, shared::Shared, supervisor::Engine, worker::Command,
};
