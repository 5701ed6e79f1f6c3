//! The way between agent and hub: straight, or through our relay, which can be slow, cut or fall silent.

use rustix::process::Signal;

use super::{Bed, Kind, Part};
use crate::ports;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Link {
    Straight,
    /// With at most so many bytes a second each way.
    Relayed {
        rate: Option<u64>,
    },
}

impl Link {
    /// The relay, if there has to be one, and the port that agents dial.
    pub(super) async fn stretch(
        self,
        bed: &Bed<'_>,
        kind: Kind,
        hub_port: u16,
    ) -> anyhow::Result<(Option<Part>, u16)> {
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
        let mut part = Part::new("relay", spec);
        part.start(bed.launcher)?;
        part.listening(port).await?;
        Ok((Some(part), port))
    }
}

/// Every connection through the relay is reset; new ones are taken.
pub(crate) const CUT: Signal = Signal::USR1;
/// Nothing passes on any connection there is, and nobody is told; new ones are taken.
pub(crate) const SILENCE: Signal = Signal::USR2;
