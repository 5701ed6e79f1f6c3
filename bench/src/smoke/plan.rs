//! Scenarios, routes and goals.

use serde::Serialize;

use crate::{
    peers::Kind,
    upstream::{LARGE_BODY_BYTES, SMALL_BODY_BYTES},
};

/// A route from the load client to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Route {
    Direct,
    Proxy,
    Fairlead,
}

impl Route {
    pub(super) const ALL: [Self; 3] = [Self::Direct, Self::Proxy, Self::Fairlead];

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Direct => Kind::Direct,
            Self::Proxy => Kind::Proxy,
            Self::Fairlead => Kind::Fairlead,
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.kind().name()
    }
}

/// Unit of a rate, which determines the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    Requests,
    Bodies,
}

impl Unit {
    /// Smallest share of the proxy's rate that Fairlead must reach.
    pub(super) fn goal(self) -> f64 {
        match self {
            Self::Requests => 0.5,
            Self::Bodies => 0.35,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    Get { path: &'static str, size: usize },
    Post { path: &'static str, size: usize },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SmokeScenario {
    pub(super) name: &'static str,
    pub(super) connections: usize,
    pub(super) unit: Unit,
    pub(super) load: Load,
}

const SMALL_DOWN: Load = Load::Get {
    path: "/bytes/1024",
    size: SMALL_BODY_BYTES,
};
const LARGE_DOWN: Load = Load::Get {
    path: "/bytes/8388608",
    size: LARGE_BODY_BYTES,
};
const LARGE_UP: Load = Load::Post {
    path: "/sink",
    size: LARGE_BODY_BYTES,
};

pub(super) const SCENARIOS: [SmokeScenario; 6] = [
    SmokeScenario {
        name: "get-1k-c1",
        connections: 1,
        unit: Unit::Requests,
        load: SMALL_DOWN,
    },
    SmokeScenario {
        name: "get-1k-c16",
        connections: 16,
        unit: Unit::Requests,
        load: SMALL_DOWN,
    },
    SmokeScenario {
        name: "get-1k-c128",
        connections: 128,
        unit: Unit::Requests,
        load: SMALL_DOWN,
    },
    SmokeScenario {
        name: "down-8m-c1",
        connections: 1,
        unit: Unit::Bodies,
        load: LARGE_DOWN,
    },
    SmokeScenario {
        name: "down-8m-c8",
        connections: 8,
        unit: Unit::Bodies,
        load: LARGE_DOWN,
    },
    SmokeScenario {
        name: "up-8m-c1",
        connections: 1,
        unit: Unit::Bodies,
        load: LARGE_UP,
    },
];
