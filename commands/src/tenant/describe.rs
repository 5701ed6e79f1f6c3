//! `fairlead tenant describe`: one tenant with its fields, clusters and last changes.

use fairlead_api::{Failure, resources::Cluster};
use fairlead_client::{HubClient, query_of};

use crate::{
    describe::{Changed, ClusterDescription, at, changes, describe_changes, other_fields},
    output::{Cell, TableColumn},
};

pub(super) async fn run(hub: &HubClient, id: &str) -> Result<(), Failure> {
    let tenant = super::find(hub, id).await?;
    let id = tenant.id.as_str();
    let query = query_of([("tenant", Some(id)), ("sort_by", Some("displayName"))]);
    let clusters: Vec<Cluster> = hub.get(&format!("/clusters?{query}")).await?;
    let last = changes(hub, Changed::Tenant(id)).await?;
    let mut it = ClusterDescription::default();
    it.fields(
        0,
        [
            ("Name", Some(tenant.display_name.clone())),
            ("ID", Some(tenant.id.to_string())),
            ("Created", Some(at(tenant.created))),
        ],
    );
    let other = other_fields(&tenant);
    if !other.is_empty() {
        it.heading("Fields");
        let fields = other.iter();
        it.fields(
            2,
            fields.map(|(name, it)| (name.as_str(), Some(it.clone()))),
        );
    }
    let columns = [
        TableColumn::text("NAME"),
        TableColumn::key("ID"),
        TableColumn::word("STATE"),
        TableColumn::word("SINCE"),
    ];
    let row = |it: &Cluster| {
        [
            it.display_name.clone().into(),
            it.id.to_string().into(),
            it.status.state.to_string().into(),
            Cell::Since(it.status.since),
        ]
    };
    it.table("Clusters", &columns, clusters.iter().map(row).collect());
    describe_changes(&mut it, last.as_deref());
    Ok(it.print()?)
}
