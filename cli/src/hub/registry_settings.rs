//! Settings of the registry: lifetimes, retention, reports, quotas.

use fairlead_api::{TimeSpan, resources::TenantQuotas};
use fairlead_control::{BOOTSTRAP_TTL, PERSON_TOKEN_TTL};
use fairlead_registry::{Discovery, RegistrySettings, stale::Reporting};
use fairlead_runtime::config::Reader;
use fairlead_store::Retention;

/// Reads the settings of `fairlead server`.
pub(super) fn read(reader: &mut Reader) -> RegistrySettings {
    RegistrySettings {
        bootstrap_ttl: reader.or("bootstrap-ttl", TimeSpan(BOOTSTRAP_TTL)).0,
        person_token_ttl: (reader.or("person-token-ttl", TimeSpan(PERSON_TOKEN_TTL))).0,
        retention: read_retention(reader),
        reporting: read_reporting(reader),
        discovery: read_discovery(reader),
        metric_facts: reader.list("metric-fact"),
        quotas: read_quotas(reader),
        audit_dir: None,
    }
}

/// Default quotas of tenants.
fn read_quotas(reader: &mut Reader) -> TenantQuotas {
    let mut quotas = serde_json::Map::new();
    for given in reader.list::<String>("tenant-quota") {
        let number = given.split_once('=');
        match number.and_then(|(name, text)| Some((name, text.parse::<u32>().ok()?))) {
            Some((name, number)) => drop(quotas.insert(name.to_owned(), number.into())),
            None => reader.mistake(format!("tenant-quota {given:?}: expected NAME=NUMBER")),
        }
    }
    serde_json::from_value(quotas.into()).unwrap_or_else(|error| {
        reader.mistake(format!("tenant-quota: {error}"));
        TenantQuotas::default()
    })
}

fn read_retention(reader: &mut Reader) -> Retention {
    let default = Retention::default();
    Retention {
        changes: reader.or("keep-changes", TimeSpan(default.changes)).0,
        facts: reader.or("keep-facts", TimeSpan(default.facts)).0,
        lines: default.lines,
        acts: reader.or("audit-keep", TimeSpan(default.acts)).0,
    }
}

fn read_reporting(reader: &mut Reader) -> Reporting {
    let default = Reporting::default();
    Reporting {
        agent: reader.or("agent-reports-every", TimeSpan(default.agent)).0,
        steward: reader
            .or("steward-reports-every", TimeSpan(default.steward))
            .0,
    }
}

/// Data that `GET /` reports to Lieutenant's clients.
fn read_discovery(reader: &mut Reader) -> Discovery {
    let oidc_url = reader.optional("oidc-discovery-url");
    let oidc = (oidc_url, reader.optional("oidc-client-id"));
    let vault_addr: Option<String> = reader.optional("vault-addr");
    let vault_login = reader.optional("vault-login-method");
    if oidc.0.is_some() != oidc.1.is_some() {
        reader.mistake("oidc-discovery-url and oidc-client-id must be set together");
    }
    Discovery {
        oidc: oidc.0.zip(oidc.1),
        vault: vault_addr.map(|addr| (addr, vault_login)),
    }
}
