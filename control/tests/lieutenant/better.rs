//! What is better here than there.

mod bootstrap;
mod changes;
mod log;
mod requests;
mod seen;
