//! `fairlead whoami`: name, role and access of the caller.

use fairlead_api::{
    ClusterId, Failure, Selector, TenantId,
    resources::{CallerGrant, CallerGrantKind, WhoAmI},
};
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
    let on = on(&who.cluster, &who.tenant, who.selector.as_ref());
    let in_clusters = match (&who.user, &who.group) {
        (None, _) => "no access with kubectl".to_owned(),
        (Some(user), None) => format!("user {user}"),
        (Some(user), Some(group)) => format!("user {user}, group {group}"),
    };
    let mut text = format!(
        "name:      {}\nrole:      {} on {on}{}\nclusters:  {in_clusters}\n",
        who.name,
        who.role,
        in_namespaces(&who.namespaces)
    );
    for grant in &who.grants {
        text.push_str(&format!("also:      {}\n", described(grant)));
    }
    text
}

/// Scope of a role, in words.
fn on(
    cluster: &Option<ClusterId>,
    tenant: &Option<TenantId>,
    selector: Option<&Selector>,
) -> String {
    let tenant = match (cluster, tenant) {
        (Some(cluster), _) => return format!("the cluster {cluster}"),
        (None, Some(tenant)) => format!("the tenant {tenant}"),
        (None, None) => "all tenants".to_owned(),
    };
    match selector {
        Some(selector) => format!("clusters with {selector} of {tenant}"),
        None => tenant,
    }
}

fn described(grant: &CallerGrant) -> String {
    let on = on(&grant.cluster, &grant.tenant, grant.selector.as_ref());
    let source = match (grant.kind, &grant.request) {
        (CallerGrantKind::Standing, _) => String::new(),
        (CallerGrantKind::Temporary, None) => " for a time".to_owned(),
        (CallerGrantKind::Temporary, Some(id)) => format!(" for a time, by {id}"),
        (CallerGrantKind::BreakGlass, _) => {
            " in an emergency, with `fairlead access break-glass`".to_owned()
        }
    };
    let namespaces = in_namespaces(&grant.namespaces);
    format!("{} on {on}{namespaces}{source}", grant.role)
}

fn in_namespaces(namespaces: &[String]) -> String {
    match namespaces.is_empty() {
        true => String::new(),
        false => format!(", namespaces {}", namespaces.join(", ")),
    }
}
