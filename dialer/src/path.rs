//! Properties of the network path that several layers decide by.

use std::time::Duration;

/// Round trip from which on a path counts as far: there, waiting for a window update costs more than sending many, and
/// queues are measured over several round trips.
pub(crate) const FAR_RTT: Duration = Duration::from_millis(5);
