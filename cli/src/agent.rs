//! `fairlead agent`: reads the settings of an agent and runs it.

mod runner;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::ArgMatches;
use fairlead_agent::{
    Config, DEFAULT_SESSION_MEMORY_BYTES, DeliveryConfig, GitProxyConfig, IdentityLocation,
    UpgradeRule,
};
use fairlead_api::{
    Code, Failure, HubUrl, JoinString, TimeSpan,
    hello::{Instance, LinkCount},
    tcp::joined_ports,
};
use fairlead_apiserver::{ApiServerConfig, SERVICE_ACCOUNT_DIR};
use fairlead_client::{Environment, files};
use fairlead_runtime::{
    admin,
    config::{ListenAddress, MemorySize, Reader},
    listen,
};
use tracing::info;

use crate::{build_info::VERSION, settings, settings::ProcessSettings, traces};

/// Name of the agent in traces.
const SERVICE: &str = "fairlead-agent";

/// Value of a flag that switches something on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "on" => Ok(Switch::On),
            "off" => Ok(Switch::Off),
            _ => Err("expected on or off"),
        }
    }
}

pub(crate) fn run(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = settings::reader("agent", matches, environment);
    let process = ProcessSettings::read(&mut reader, environment);
    let admin_address = reader.optional::<ListenAddress>("admin");
    let config = read(&mut reader, environment);
    reader.finish()?;
    let config = config.ok_or(Code::Internal)?;
    // Each session is one task: a second runtime thread would only add wake-ups between threads.
    process.run(1, async move |process| {
        if let Some(address) = admin_address {
            let listener = listen::bind(address.0)?;
            if let Ok(address) = listener.local_addr() {
                info!(%address, "admin port");
            }
            let serving = admin::serve(listener, process.clone(), axum::Router::new());
            process.spawn(serving);
        }
        // Not once the hub is reached: the agent of a machine that starts without its network dials on.
        process.started();
        fairlead_agent::run(config, process).await
    })
}

/// Settings of an agent that is checked, not run.
///
/// # Errors
/// `FL-4101` with all mistakes.
pub(crate) fn config(matches: &ArgMatches, environment: &Environment) -> Result<Config, Failure> {
    let (reader, config) = read_all(matches, environment);
    reader.finish()?;
    Ok(config.ok_or(Code::Internal)?)
}

/// Reader that has read all settings of an agent, and the result.
pub(crate) fn read_all(
    matches: &ArgMatches,
    environment: &Environment,
) -> (Reader, Option<Config>) {
    let mut reader = settings::reader("agent", matches, environment);
    let _ = ProcessSettings::read(&mut reader, environment);
    let _ = reader.optional::<ListenAddress>("admin");
    let config = read(&mut reader, environment);
    (reader, config)
}

/// Reads the settings; `None` only if the reader has recorded a mistake.
fn read(reader: &mut Reader, environment: &Environment) -> Option<Config> {
    let kubeconfig = reader.optional::<PathBuf>("kubeconfig");
    let context = reader.optional::<String>("context");
    let state = reader.optional::<PathBuf>("state");
    if context.is_some() && kubeconfig.is_none() {
        reader.mistake("context belongs to kubeconfig, which is missing");
    }
    let join = reader
        .optional::<String>("join")
        .map(|text| join_string(&text));
    let join = match join.transpose() {
        Ok(join) => join,
        Err(failure) => {
            reader.mistake(failure.to_string());
            None
        }
    };
    let instance = reader
        .optional::<String>("pod-uid")
        .map(|uid| Instance::of_pod(&uid))
        .transpose();
    let instance = instance.unwrap_or_else(|error| {
        reader.mistake(format!("pod-uid: {error}"));
        None
    });
    let state = where_state_is(
        state,
        kubeconfig.as_deref(),
        context.as_deref(),
        environment,
    );
    let state = state.map_err(|failure| reader.mistake(failure.cause)).ok();
    let delivery = reader.or("delivery", Switch::Off);
    let runner = runner::read(reader, state.as_ref(), environment);
    let (https_proxy, no_proxy) = environment.proxy_variables();
    let cache = match &state {
        // The root file system of a pod is read-only.
        Some(IdentityLocation::Secret { .. }) | None => None,
        Some(IdentityLocation::Dir(folder)) => Some(folder.join("delivery")),
    };
    let config = Config {
        join,
        adopt: reader.or("adopt", false),
        git_proxy: GitProxyConfig {
            listen: reader.optional::<ListenAddress>("git-proxy").map(|it| it.0),
            forwards: reader.list("git-forward"),
        },
        hubs: reader.list::<HubUrl>("hub"),
        instance,
        links: reader.optional::<LinkCount>("links"),
        learn_hubs: reader.or("learn-hubs", Switch::On) == Switch::On,
        ca_file: reader.optional("ca-file"),
        target: target(kubeconfig, context, reader, environment)?,
        state: state?,
        allow_groups: reader.list("allow-group"),
        allow_as: reader.list("allow-as"),
        facts_every: reader
            .optional::<TimeSpan>("facts-every")
            .map(|span| span.0),
        operator_namespaces: reader.list("operator-namespaces"),
        allow_connect: joined_ports(reader.list::<String>("allow-connect")),
        delivery: (delivery == Switch::On).then_some(DeliveryConfig { cache, runner }),
        upgrades: reader.or("upgrades", UpgradeRule::default()),
        session_memory: reader
            .or("session-memory", MemorySize(DEFAULT_SESSION_MEMORY_BYTES))
            .0,
        https_proxy: https_proxy.map(str::to_owned),
        proxy_file: reader.optional("proxy-file"),
        no_proxy: no_proxy.map(str::to_owned),
        traces: traces::read(reader, environment, SERVICE),
        version: VERSION.to_owned(),
    };
    Some(config)
}

/// Parses a join string, or reads it from the file named after `@`.
fn join_string(text: &str) -> Result<JoinString, Failure> {
    let parsed = match text.strip_prefix('@') {
        Some(file) => files::read(Path::new(file))?.parse::<JoinString>(),
        None => text.parse(),
    };
    parsed.map_err(|error| Failure::because(Code::BadJoinString, error))
}

fn target(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    reader: &mut Reader,
    environment: &Environment,
) -> Option<ApiServerConfig> {
    if let Some(path) = kubeconfig {
        return Some(ApiServerConfig::Kubeconfig { path, context });
    }
    let (host, port) = (
        environment.get("KUBERNETES_SERVICE_HOST"),
        environment.get("KUBERNETES_SERVICE_PORT"),
    );
    match (host, port.and_then(|port| port.parse().ok())) {
        (Some(host), Some(port)) => Some(ApiServerConfig::InCluster {
            host: host.to_owned(),
            port,
            dir: SERVICE_ACCOUNT_DIR.into(),
        }),
        _ => {
            reader.mistake("kubeconfig is missing, and this is no pod of a cluster (KUBERNETES_SERVICE_HOST is not set)");
            None
        }
    }
}

/// Storage of the identity: a Secret in a pod, else a folder per kubeconfig and context, so that agents never share one.
fn where_state_is(
    state: Option<PathBuf>,
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    environment: &Environment,
) -> Result<IdentityLocation, Failure> {
    Ok(match (state, kubeconfig) {
        (Some(dir), _) => IdentityLocation::Dir(dir),
        (None, None) => IdentityLocation::Secret { namespace: None },
        (None, Some(kubeconfig)) => {
            IdentityLocation::Dir(state_folder(kubeconfig, context, environment)?)
        }
    })
}

/// Default folder for the identity of an agent outside of a pod.
///
/// # Errors
/// `FL-4101` if no variable names a folder for data.
pub(crate) fn state_folder(
    kubeconfig: &Path,
    context: Option<&str>,
    environment: &Environment,
) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    let name = format!("{}-{}", path.display(), context.unwrap_or("current"));
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let agents = environment.data_dir()?.join("agents");
    Ok(agents.join(name.trim_matches('-')))
}
