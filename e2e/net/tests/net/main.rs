//! The built `fairlead`, a real kube-apiserver and the real kubectl, over networks as they are: with real proxies and load balancers, far
//! away, lossy, and broken in every way. Run by `make net`, as root.

#![allow(
    clippy::large_futures,
    reason = "a test waits for one future at a time"
)]

mod between;
mod fault;
mod many;
mod rig;
mod survive;
mod wan;
mod work;
