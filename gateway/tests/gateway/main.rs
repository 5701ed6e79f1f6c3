//! A real gateway on loopback, with fake modules behind the seam and real agents' ends of sessions.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod boxes;
#[cfg(test)]
mod client;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod draining;
#[cfg(test)]
mod ended;
#[cfg(test)]
mod forwarded;
#[cfg(test)]
mod front;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod hostile;
mod hub_metrics;
#[cfg(test)]
mod links;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod proxies;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod revoked;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod services;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod silent;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tcp_hostile;
#[cfg(test)]
mod tcp_http2;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod tunnel;
#[cfg(test)]
mod waiting;
