//! Names of the compared programs.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Direct,
    Proxy,
    Fairlead,
    /// An earlier build of Fairlead (`--before`).
    FairleadBefore,
    Remotedialer,
    Konnectivity,
    Frp,
    Chisel,
    Rathole,
    Wstunnel,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Direct,
        Self::Proxy,
        Self::Fairlead,
        Self::FairleadBefore,
        Self::Remotedialer,
        Self::Konnectivity,
        Self::Frp,
        Self::Chisel,
        Self::Rathole,
        Self::Wstunnel,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxy => "proxy",
            Self::Fairlead => "fairlead",
            Self::FairleadBefore => "fairlead-before",
            Self::Remotedialer => "remotedialer",
            Self::Konnectivity => "konnectivity",
            Self::Frp => "frp",
            Self::Chisel => "chisel",
            Self::Rathole => "rathole",
            Self::Wstunnel => "wstunnel",
        }
    }

    /// `true` for tunnels other than Fairlead. `bench/peers/build` builds them.
    pub(crate) fn is_built(self) -> bool {
        self.is_tunnel() && !matches!(self, Self::Fairlead | Self::FairleadBefore)
    }

    /// `true` if a hub and an agent stand between client and upstream.
    pub(crate) fn is_tunnel(self) -> bool {
        !matches!(self, Self::Direct | Self::Proxy)
    }
}
