//! Operations of the writers.

mod done;
mod request;
mod secrets;

use std::collections::BTreeMap;

use fairlead_e2e::link::Random;
use serde_json::Value;

pub(crate) use request::manifests;
pub(crate) use secrets::Secrets;

// Prefixes of names, in a world and in the log.
pub(crate) const TENANT: &str = "tenant ";
pub(crate) const CLUSTER: &str = "cluster ";
pub(crate) const TOKEN: &str = "token ";

/// All objects of one writer as they should be visible, by name.
pub(crate) type LoadWorld = BTreeMap<String, Value>;
/// Sorted log lines of one change. The id of a token is unknown before it is created.
pub(crate) type LoadStep = Vec<String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    MakeTenant,
    RenameTenant,
    /// Deletes a tenant with all of its clusters.
    DropTenant,
    MakeCluster,
    Patch,
    Put,
    /// Reports facts as Steward.
    Report,
    Compile,
    Move,
    DropCluster,
    Invite,
    Uninvite,
    Spend,
    MakeToken,
    DropToken,
}

/// An operation. Its number is unique per writer and appears in everything that it writes.
#[derive(Debug, Clone)]
pub(crate) struct LoadOperation {
    what: What,
    number: u64,
    id: String,
    /// Tenant that a cluster moves to, or cluster of a token.
    of: Option<String>,
}

impl LoadOperation {
    /// A random operation that is possible now. Creations and deletions are balanced, so that the world stays
    /// small.
    pub(crate) fn choose(
        writer: usize,
        number: u64,
        (world, secrets): (&LoadWorld, &Secrets),
        random: &mut Random,
    ) -> Self {
        let (tenants, clusters) = (of_kind(world, TENANT), of_kind(world, CLUSTER));
        let mut tokens = of_kind(world, TOKEN);
        // Steward's tokens are not deleted by users.
        tokens.retain(|name| name.starts_with('k'));
        let new = |prefix: &str| format!("{prefix}-w{writer}-{number}");
        let operation = |what, id: &str, of: Option<&str>| LoadOperation {
            what,
            number,
            id: id.to_owned(),
            of: of.map(str::to_owned),
        };
        let (Some(tenant), 2..) = (random.choose(&tenants), tenants.len()) else {
            return operation(What::MakeTenant, &new("t"), None);
        };
        let Some(cluster) = random.choose(&clusters) else {
            return operation(What::MakeCluster, &new("c"), Some(tenant));
        };
        let there = world.get(&format!("{CLUSTER}{cluster}"));
        let stands = |field: &str| there?.get(field)?.as_str();
        let mut may = vec![What::Patch; 4];
        may.extend([What::Put, What::Put, What::Compile, What::Compile]);
        may.extend([What::Invite, What::DropCluster, What::RenameTenant]);
        if stands("bootstrap") == Some("valid") && secrets.bootstrap.contains_key(*cluster) {
            may.extend([What::Spend, What::Spend, What::Spend, What::Uninvite]);
        }
        if secrets.steward.contains_key(*cluster) {
            may.extend([What::Report; 5]);
        }
        if stands("tenant") != Some(tenant) {
            may.push(What::Move);
        }
        if clusters.len() < 6 {
            may.extend([What::MakeCluster; 3]);
        }
        may.push(match tenants.len() {
            ..4 => What::MakeTenant,
            _ => What::DropTenant,
        });
        may.push(match tokens.len() {
            ..5 => What::MakeToken,
            _ => What::DropToken,
        });
        let what = random.choose(&may).copied().unwrap_or(What::Patch);
        match what {
            What::MakeTenant => operation(what, &new("t"), None),
            What::MakeCluster => operation(what, &new("c"), Some(tenant)),
            What::MakeToken if number.is_multiple_of(2) => operation(what, &new("k"), None),
            What::MakeToken => operation(what, &new("k"), Some(cluster)),
            What::DropToken => {
                let token = random.choose(&tokens).copied().unwrap_or_default();
                operation(what, token, None)
            }
            What::RenameTenant | What::DropTenant => operation(what, tenant, None),
            What::Move => operation(what, cluster, Some(tenant)),
            _ => operation(what, cluster, None),
        }
    }
}

fn of_kind<'a>(world: &'a LoadWorld, prefix: &str) -> Vec<&'a str> {
    let keys = world.keys().filter_map(|key| key.strip_prefix(prefix));
    keys.collect()
}
