//! Behaviour of Lieutenant that its clients rely on.

mod bootstrap;
mod clients;
mod clusters;
mod lists;
mod patch;
mod repositories;
mod requests;
