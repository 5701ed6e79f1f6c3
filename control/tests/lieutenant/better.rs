//! Improvements over Lieutenant.

mod bootstrap;
mod changes;
mod log;
mod requests;
mod visibility;
