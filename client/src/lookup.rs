//! Lookup of clusters by id or display name.

use fairlead_api::{ClusterId, Code, Failure, resources::Cluster};

use crate::{hub_client::HubClient, query::query_of};

/// Finds a cluster by id, else by unique display name.
///
/// # Errors
/// `FL-1301` for an unknown name, `FL-4109` for an ambiguous one; failures of the hub.
pub async fn find(hub: &HubClient, name: &str) -> Result<Cluster, Failure> {
    if name.parse::<ClusterId>().is_ok() {
        let known = hub.get_optional(&format!("/clusters/{name}")).await?;
        if let Some(cluster) = known {
            return Ok(cluster);
        }
    }
    let clusters: Vec<Cluster> = match name {
        "" => Vec::new(),
        name => {
            hub.get(&format!("/clusters?{}", query_of([("text", Some(name))])))
                .await?
        }
    };
    among(&clusters, name).cloned()
}

/// Finds a cluster in a list, like [`find`].
///
/// # Errors
/// `FL-1301` for an unknown name, `FL-4109` for an ambiguous one.
pub fn among<'a>(clusters: &'a [Cluster], name: &str) -> Result<&'a Cluster, Failure> {
    if let Some(cluster) = clusters.iter().find(|it| it.id.as_str() == name) {
        return Ok(cluster);
    }
    let named = clusters.iter().filter(|it| it.display_name == name);
    match named.collect::<Vec<_>>().as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::because(
            Code::NoSuchCluster,
            format_args!("{name:?}"),
        )),
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            let ids = ids.join(", ");
            let detail = format_args!("{name:?} is the name of several clusters: {ids}");
            let failure = Failure::because(Code::Invalid, detail);
            Err(failure.next("Give the id instead of the name."))
        }
    }
}

/// Resolves a name or id; an id may be that of a deleted cluster.
///
/// # Errors
/// Those of [`find`].
pub async fn id_of(hub: &HubClient, name: &str) -> Result<ClusterId, Failure> {
    match name.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(find(hub, name).await?.id),
    }
}
