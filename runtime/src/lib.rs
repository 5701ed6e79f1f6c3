//! The process skeleton: listen, drain, readiness, admin port, logging, configuration. It knows neither Kubernetes nor
//! tunnels.

pub mod admin;
pub mod atomic_file;
pub mod backoff;
pub mod config;
mod exemplars;
pub mod files;
pub mod gauges;
pub mod listen;
pub mod log;
pub mod metrics;
mod openmetrics;
pub mod plain_text;
pub mod process;
#[cfg(target_os = "linux")]
mod process_metrics;
pub mod proxies;
pub mod proxy_header;
mod seldom;
pub mod service;
mod trim;
pub mod workers;

pub use exemplars::Exemplars;
pub use metrics::Registry;
pub use process::{Process, run};
pub use seldom::Seldom;
pub use service::ServiceManager;
pub use workers::Workers;
