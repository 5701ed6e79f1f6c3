//! The path between agent and hub: direct, or through a relay that can be slow, cut or silent.

use rustix::process::Signal;

use super::{bed::Bed, kind::Kind, part::PeerPart};
use crate::ports;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Link {
    Straight,
    /// Through a relay that limits each direction to this many bytes per second.
    Relayed {
        rate: Option<u64>,
    },
}

impl Link {
    /// Starts the relay, if there is one, and returns it with the port that agents dial.
    pub(super) async fn stretch(
        self,
        bed: &Bed<'_>,
        kind: Kind,
        hub_port: u16,
    ) -> anyhow::Result<(Option<PeerPart>, u16)> {
        let Self::Relayed { rate } = self else {
            return Ok((None, hub_port));
        };
        let port = ports::free()?;
        let name = format!("{}-relay", kind.name());
        let mut spec = bed
            .launcher
            .own(name, "relay")
            .args(["--listen", &port.to_string()])
            .args(["--to", &hub_port.to_string()]);
        if let Some(rate) = rate {
            spec = spec.args(["--rate", &rate.to_string()]);
        }
        let mut part = PeerPart::new("relay", spec);
        part.start(bed.launcher)?;
        part.listening(port).await?;
        Ok((Some(part), port))
    }
}

/// Resets every connection through the relay. New ones are accepted.
pub(crate) const CUT: Signal = Signal::USR1;
/// Passes nothing on any existing connection and closes none. New ones are accepted.
pub(crate) const SILENCE: Signal = Signal::USR2;
