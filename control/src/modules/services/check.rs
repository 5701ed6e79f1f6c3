//! Documents of services: their check at the border, and the form that the gateway gets.

use fairlead_api::{
    Code, Failure,
    resources::{PutService, ServiceName, ServiceProtocol},
    tcp::{HostName, TcpHost, TcpTarget},
};
use fairlead_registry::RegistryError;
use fairlead_routes::{InvalidValue, invalid};
use fairlead_runtime::proxies::Network;
use fairlead_seam::{NamedService, ServiceEntry};
use fairlead_store::{View, model::ServiceRecord};
use time::OffsetDateTime;

use super::ServiceParts;

/// Limit of networks of one service.
const MAX_NETWORKS: usize = 64;

/// The service as the gateway gets it; `None` for a damaged record, or one without its cluster.
pub(super) fn read(view: &View, record: &ServiceRecord) -> Option<NamedService> {
    let cluster = view.cluster(&record.cluster)?;
    Some(NamedService {
        name: record.name.clone(),
        cluster: record.cluster.clone(),
        tenant: cluster.value.tenant.clone(),
        target: record.target.parse().ok()?,
        entry: entry(
            record.protocol,
            record.port,
            record.host.as_deref(),
            record.callers,
        )
        .ok()?,
        from: networks(&record.from).ok()?,
    })
}

/// Checks a document, and makes the record of it.
///
/// # Errors
/// `FL-4109` for an invalid value, `FL-1425` for a port or host that this hub does not listen for.
pub(super) fn record(
    parts: &ServiceParts,
    name: ServiceName,
    given: PutService,
    (created_by, created): (&str, OffsetDateTime),
) -> Result<ServiceRecord, RegistryError> {
    let target: TcpTarget =
        (given.target.parse()).map_err(|error| invalid(format_args!("target: {error}")))?;
    networks(&given.from)?;
    let entry = entry(
        given.protocol,
        given.port,
        given.host.as_deref(),
        given.callers,
    )?;
    match &entry {
        ServiceEntry::Port(port) => check_port(parts, *port)?,
        ServiceEntry::HttpHost { host, .. } | ServiceEntry::TlsName(host) => {
            check_host(parts, host)?;
        }
    }
    Ok(ServiceRecord {
        name,
        cluster: given.cluster,
        target: target.to_string(),
        protocol: given.protocol,
        port: given.port,
        host: given.host,
        from: given.from,
        callers: given.callers,
        created_by: created_by.to_owned(),
        created,
    })
}

fn networks(from: &[String]) -> Result<Vec<Network>, InvalidValue> {
    if !(1..=MAX_NETWORKS).contains(&from.len()) {
        return Err(invalid(format_args!(
            "from: expected 1 to {MAX_NETWORKS} networks; `0.0.0.0/0` and `::/0` admit all clients"
        )));
    }
    let parsed = from.iter().map(|text| {
        text.parse()
            .map_err(|error| invalid(format_args!("from: {text:?}: {error}")))
    });
    parsed.collect()
}

fn entry(
    protocol: ServiceProtocol,
    port: Option<u16>,
    host: Option<&str>,
    callers: bool,
) -> Result<ServiceEntry, InvalidValue> {
    if callers && protocol != ServiceProtocol::Http {
        return Err(invalid("callers: only for the protocol http"));
    }
    let host = host.map(host_name).transpose()?;
    match (protocol, port, host) {
        (ServiceProtocol::Tcp, Some(port), None) if port > 0 => Ok(ServiceEntry::Port(port)),
        (ServiceProtocol::Http, None, Some(host)) => Ok(ServiceEntry::HttpHost { host, callers }),
        (ServiceProtocol::Https, None, Some(host)) => Ok(ServiceEntry::TlsName(host)),
        (ServiceProtocol::Tcp, ..) => {
            Err(invalid("port: a service by tcp has a port, and no host"))
        }
        _ => Err(invalid(
            "host: a service by http or https has a host, and no port",
        )),
    }
}

fn host_name(text: &str) -> Result<HostName, InvalidValue> {
    match text.parse() {
        Ok(TcpHost::Name(name)) => Ok(name),
        Ok(TcpHost::Address(_)) | Err(_) => Err(invalid("host: expected a DNS name in lower case")),
    }
}

fn check_port(parts: &ServiceParts, port: u16) -> Result<(), Failure> {
    let cause = match &parts.settings.ports {
        Some(ports) if ports.contains(port) => return Ok(()),
        Some(ports) => format!("the hub has the ports {ports} for services, not {port}"),
        None => "the hub has no ports for services".to_owned(),
    };
    Err(Failure::because(Code::ServicePortsMissing, cause))
}

/// A service never takes a name of the hub: clients send their tokens there.
fn check_host(parts: &ServiceParts, host: &HostName) -> Result<(), RegistryError> {
    let host = host.as_str();
    let is_below = |domain: &str| {
        let label = host.strip_suffix(domain);
        label.is_some_and(|it| it.is_empty() || it.ends_with('.'))
    };
    let Some(domain) = &parts.settings.domain else {
        let cause = "the hub has no domain for services";
        let failure = Failure::because(Code::ServicePortsMissing, cause);
        let next = "Ask the platform operator to set the hub's `--service-domain`.";
        return Err(failure.next(next).into());
    };
    if parts.hub_names.iter().any(|name| is_below(name)) {
        return Err(invalid("host: the hub itself or its clusters have this name").into());
    }
    match is_below(domain) && host != domain {
        true => Ok(()),
        false => Err(invalid(format_args!("host: expected a name below {domain}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_has_the_fields_of_its_protocol_only() {
        let (tcp, http, https) = (
            ServiceProtocol::Tcp,
            ServiceProtocol::Http,
            ServiceProtocol::Https,
        );
        assert_eq!(
            entry(tcp, Some(20_000), None, false).unwrap(),
            ServiceEntry::Port(20_000)
        );
        assert!(entry(http, None, Some("a.example"), true).is_ok());
        assert!(entry(https, None, Some("a.example"), false).is_ok());
        for (protocol, port, host, callers) in [
            (tcp, None, None, false),
            (tcp, Some(0), None, false),
            (tcp, Some(1), Some("a.example"), false),
            (tcp, Some(1), None, true),
            (http, Some(1), Some("a.example"), false),
            (http, None, None, false),
            (http, None, Some("A.example"), false),
            (http, None, Some("127.0.0.1"), false),
            (https, None, Some("a.example"), true),
        ] {
            let made = entry(protocol, port, host, callers);
            assert!(made.is_err(), "{protocol} {port:?} {host:?} {callers}");
        }
    }

    #[test]
    fn service_names_its_networks() {
        assert!(networks(&[]).is_err());
        assert!(networks(&["10.0.0.0/8".to_owned(), "::/0".to_owned()]).is_ok());
        assert!(networks(&["everyone".to_owned()]).is_err());
    }
}
