//! Names of the compared programs.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Direct,
    Proxy,
    Fairlead,
    Remotedialer,
    Konnectivity,
    Frp,
    Chisel,
    Rathole,
    Wstunnel,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Direct,
        Self::Proxy,
        Self::Fairlead,
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
            Self::Remotedialer => "remotedialer",
            Self::Konnectivity => "konnectivity",
            Self::Frp => "frp",
            Self::Chisel => "chisel",
            Self::Rathole => "rathole",
            Self::Wstunnel => "wstunnel",
        }
    }

    /// `true` if `bench/peers/build` builds it.
    pub(crate) fn is_built(self) -> bool {
        self.is_tunnel() && self != Self::Fairlead
    }

    /// `true` if a hub and an agent stand between client and upstream.
    pub(crate) fn is_tunnel(self) -> bool {
        !matches!(self, Self::Direct | Self::Proxy)
    }
}
