//! The two ends of a session.

/// End of the session: the agent's stream ids are odd, the hub's even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The agent: opens odd streams.
    Agent,
    /// The hub: opens even streams.
    Hub,
}
