//! `fairlead service`: named services, for which the hub listens.

use fairlead_api::{
    Code, Failure,
    resources::{List, PutService, ServiceDocument, ServiceName, ServiceProtocol},
    tcp::TcpTarget,
};
use fairlead_client::{Environment, HubClient, HubError, lookup::id_of, query_of};

use crate::{
    args::ServiceArgs,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
};

const SERVICES_PATH: &str = "/v1/services";

pub(crate) fn run(command: ServiceArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            ServiceArgs::List { cluster, output } => {
                let cluster = match cluster {
                    Some(cluster) => Some(id_of(&hub, &cluster).await?.to_string()),
                    None => None,
                };
                let query = query_of([("cluster", cluster)]);
                let path = format!("{SERVICES_PATH}?{query}");
                let services: List<ServiceDocument> = hub.get(path.trim_end_matches('?')).await?;
                let format = &output.output;
                Ok::<_, Failure>(output::show_list(
                    format,
                    &services,
                    "services",
                    &columns(),
                    cells,
                )?)
            }
            ServiceArgs::Create {
                name,
                cluster,
                target,
                port,
                http_host,
                https_host,
                from,
                callers,
                output,
            } => {
                let protocol = match (&http_host, &https_host) {
                    (Some(_), _) => ServiceProtocol::Http,
                    (None, Some(_)) => ServiceProtocol::Https,
                    (None, None) => ServiceProtocol::Tcp,
                };
                let body = PutService {
                    cluster: id_of(&hub, &cluster).await?,
                    target: target_of(&target)?.to_string(),
                    protocol,
                    port,
                    host: http_host.or(https_host).map(|it| it.to_ascii_lowercase()),
                    from,
                    callers,
                };
                let written: ServiceDocument = hub.put(&path_of(&name), &body).await?;
                show(&output.output, &written)
            }
            ServiceArgs::Delete { name, yes } => {
                let question = format!("This deletes {name} and ends its connections. Continue?");
                confirm(yes, &question)?;
                let deleted = hub.delete(&path_of(&name)).await;
                deleted.map_err(|error| match error {
                    HubError::NotFound(_) => {
                        Failure::because(Code::NotFound, format_args!("the service {name}"))
                            .next("List the services with `fairlead service list`.")
                    }
                    other => other.into(),
                })?;
                Ok(output::print(&format!("Deleted {name}.\n"))?)
            }
        }
    })?
}

fn path_of(name: &ServiceName) -> String {
    format!("{SERVICES_PATH}/{name}")
}

/// The target of a person's input, in its one spelling.
fn target_of(text: &str) -> Result<TcpTarget, Failure> {
    let invalid = |error| Failure::because(Code::TcpTargetInvalid, format_args!("{text}: {error}"));
    let (host, port) = text
        .rsplit_once(':')
        .ok_or(fairlead_api::tcp::TcpTargetError::NoPort)
        .map_err(invalid)?;
    let port = port.parse();
    let port = port.map_err(|_| invalid(fairlead_api::tcp::TcpTargetError::Port))?;
    TcpTarget::of_input(host, port).map_err(invalid)
}

fn show(format: &OutputFormat, service: &ServiceDocument) -> Result<(), Failure> {
    let rows = |service: &ServiceDocument| output::table(format, &columns(), [cells(service)]);
    Ok(output::show(format, service, rows)?)
}

fn columns() -> [TableColumn; 7] {
    [
        TableColumn::key("NAME"),
        TableColumn::id("CLUSTER"),
        TableColumn::word("TARGET"),
        TableColumn::word("PROTOCOL"),
        TableColumn::word("ENTRY"),
        TableColumn::word("FROM"),
        TableColumn::text("STATE"),
    ]
}

fn cells(service: &ServiceDocument) -> [Cell; 7] {
    let entry = match (service.port, &service.host) {
        (Some(port), _) => port.to_string(),
        (None, host) => host.clone().unwrap_or_default(),
    };
    let state = match (service.state.listening, &service.state.cause) {
        (true, _) => "listening".to_owned(),
        (false, cause) => cause.clone().unwrap_or_default(),
    };
    [
        service.name.to_string().into(),
        service.cluster.to_string().into(),
        service.target.clone().into(),
        service.protocol.to_string().into(),
        entry.into(),
        service.from.join(",").into(),
        state.into(),
    ]
}
