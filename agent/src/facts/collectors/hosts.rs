//! `ingressHosts`, `routeHosts`, `gatewayHosts`: host names of the cluster, each with its objects.

use serde::{Deserialize, de::IgnoredAny};

use super::ObjectMetadata;
use crate::facts::{
    bounded::BoundedPlaces,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

const INGRESSES_PATH: &str = "/apis/networking.k8s.io/v1/ingresses";
const ROUTES_PATH: &str = "/apis/route.openshift.io/v1/routes";
const GATEWAYS_PATH: &str = "/apis/gateway.networking.k8s.io/v1/gateways";
const HTTP_ROUTES_PATH: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";
const GRPC_ROUTES_PATH: &str = "/apis/gateway.networking.k8s.io/v1/grpcroutes";

#[derive(Default)]
pub(super) struct Hosts {
    ingress: BoundedPlaces,
    route: BoundedPlaces,
    gateway: BoundedPlaces,
}

/// Union of the fields of Ingress, Route, Gateway and the routes of a Gateway.
#[derive(Deserialize)]
struct Reached {
    metadata: ObjectMetadata<IgnoredAny>,
    #[serde(default)]
    spec: HostsSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HostsSpec {
    rules: Vec<HostRule>,
    listeners: Vec<HostRule>,
    host: Option<String>,
    hostnames: Vec<String>,
}

#[derive(Deserialize)]
struct HostRule {
    #[serde(default, alias = "hostname")]
    host: Option<String>,
}

impl Collector for Hosts {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![
            CollectorSource::list(INGRESSES_PATH, "list ingresses.networking.k8s.io"),
            CollectorSource::list(ROUTES_PATH, "list routes.route.openshift.io"),
            CollectorSource::list(GATEWAYS_PATH, "list gateways.gateway.networking.k8s.io"),
            CollectorSource::list(
                HTTP_ROUTES_PATH,
                "list httproutes.gateway.networking.k8s.io",
            ),
            CollectorSource::list(
                GRPC_ROUTES_PATH,
                "list grpcroutes.gateway.networking.k8s.io",
            ),
        ]
    }

    fn take(&mut self, source: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let Reached { metadata, spec } = serde_json::from_slice(object)?;
        let places = match source {
            0 => &mut self.ingress,
            1 => &mut self.route,
            _ => &mut self.gateway,
        };
        let named = spec.rules.into_iter().chain(spec.listeners);
        let hosts = named.filter_map(|named| named.host);
        for host in hosts.chain(spec.host).chain(spec.hostnames) {
            if !host.is_empty() {
                places.add(&host.to_ascii_lowercase(), &metadata.place());
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let facts = [
            self.ingress.into_fact("ingressHosts"),
            self.route.into_fact("routeHosts"),
            self.gateway.into_fact("gatewayHosts"),
        ];
        facts.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn each_host_lists_its_objects() {
        let shop = json!({ "namespace": "shop", "name": "web", "labels": { "a": "b" } });
        let objects = [
            (
                0,
                json!({ "metadata": shop, "spec": { "rules": [
                { "host": "Shop.example.com", "http": { "paths": [] } },
                { "host": "shop.example.com" },
                { "http": {} },
            ], "tls": [{ "hosts": ["shop.example.com"] }] } }),
            ),
            (
                0,
                json!({ "metadata": { "namespace": "shop", "name": "two" },
                "spec": { "rules": [{ "host": "shop.example.com" }] } }),
            ),
            (
                1,
                json!({ "metadata": shop, "spec": { "host": "route.example.com", "tls": { "termination": "edge" } } }),
            ),
            (
                2,
                json!({ "metadata": shop, "spec": { "listeners": [{ "hostname": "*.example.com", "name": "x" }] } }),
            ),
            (
                3,
                json!({ "metadata": shop, "spec": { "hostnames": ["a.example.com"], "rules": [{ "matches": [] }] } }),
            ),
            (0, json!({ "metadata": shop })),
        ];
        assert_eq!(
            facts_of(Box::new(Hosts::default()), &objects),
            json!({
                "ingressHosts": { "shop.example.com": ["shop/web", "shop/two"] },
                "routeHosts": { "route.example.com": ["shop/web"] },
                "gatewayHosts": { "*.example.com": ["shop/web"], "a.example.com": ["shop/web"] },
            })
        );
    }
}
