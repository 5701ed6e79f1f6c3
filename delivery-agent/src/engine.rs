//! Delivery engine: one worker per deployment decides from desired state, journal and outcomes, and starts runs.

mod attempt;
mod decide;
mod earlier;
mod executor;
mod failure;
mod health;
mod log;
mod observer;
mod shared;
mod site;
mod stop;
mod supervisor;
mod worker;

pub(crate) use self::{
    earlier::{end_earlier_runs, programs_ended},
    health::HealthPoll,
    observer::Observer,
    shared::Shared,
    supervisor::Engine,
    worker::Command,
};
pub use self::{
    executor::{
        Applied, AppliedObject, CancelSignal, Executor, RunContext, SecretReader, SecretValues,
    },
    failure::{FailureClass, RunFailure},
    log::RunLog,
    shared::Executors,
    site::SiteLimits,
};
