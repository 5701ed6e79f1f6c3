//! `fairlead whoami`: name, role and access of the caller.

use fairlead_api::{Failure, resources::WhoAmI};
use fairlead_client::{Environment, HubClient};

use crate::{args, output, runtime::block_on};

pub(crate) fn run(args: &args::OutputArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    let who: WhoAmI = block_on(hub.get("/v1/whoami"))??;
    Ok(output::show(&args.output, &who, |who| {
        format!("hub:       {}\n{}", hub.url(), lines(who))
    })?)
}

fn lines(who: &WhoAmI) -> String {
    let on = match (&who.cluster, &who.tenant) {
        (Some(cluster), _) => format!("the cluster {cluster}"),
        (None, Some(tenant)) => format!("the tenant {tenant}"),
        (None, None) => "all tenants".to_owned(),
    };
    let in_clusters = match (&who.user, &who.group) {
        (None, _) => "no access with kubectl".to_owned(),
        (Some(user), None) => format!("user {user}"),
        (Some(user), Some(group)) => format!("user {user}, group {group}"),
    };
    format!(
        "name:      {}\nrole:      {} on {on}\nclusters:  {in_clusters}\n",
        who.name, who.role
    )
}
