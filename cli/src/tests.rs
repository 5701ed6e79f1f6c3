//! Commands in this process, against a hub in this process: all of a command except its process and its terminal.

mod access;
mod agents;
mod catalogs;
mod delivery;
mod documents;
mod failures;
mod filters;
mod hub;
mod lists;
mod printed;
mod rotation;
mod views;

/// A tenant and a cluster of it, in the wrong order.
const FLEET: &str = "\
id: c-edge
tenant: t-acme
displayName: Edge
facts:
  cloud: aws
deletionPolicy: Retain
---
id: t-acme
displayName: Acme
gitRepo:
  type: unmanaged
";
