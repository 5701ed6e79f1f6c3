//! `fairlead cluster catalog`: Kubernetes objects desired in a cluster.

use fairlead_api::{ClusterId, Failure, catalog::Catalog};
use fairlead_client::{HubClient, files, import, lookup::find};
use serde_json::Value;

use super::components;
use crate::{
    args,
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
};

const NOT_DELIVERED: &str = "note: the hub keeps the catalog, and the agent does not apply it; enable that with `fairlead cluster set CLUSTER --deliver-catalog`";

pub(super) async fn run(hub: &HubClient, command: args::ClusterCatalog) -> Result<(), Failure> {
    match command {
        args::ClusterCatalog::Get { name, output } => {
            let id = find(hub, &name).await?.id;
            let catalog: Catalog = hub.get(&path(&id)).await?;
            show(&output.output, &catalog)
        }
        args::ClusterCatalog::Status(asked) => components::status(hub, asked).await,
        args::ClusterCatalog::Set {
            name,
            files,
            yes,
            output,
        } => {
            let mut objects = Vec::new();
            for (name, text) in files::texts(&files)? {
                let read = import::read(&text).map_err(|failure| Failure {
                    cause: format!("{name}: {}", failure.cause),
                    ..failure
                });
                objects.extend(read?);
            }
            let cluster = find(hub, &name).await?;
            let id = cluster.id;
            if cluster.fields.deliver_catalog != Some(true) {
                output::note(NOT_DELIVERED);
            }
            let known: Catalog = hub.get(&path(&id)).await?;
            if known.objects == objects {
                return show(&output.output, &known);
            }
            if !known.objects.is_empty() {
                let (count, before) = (objects.len(), known.objects.len());
                let question = format!(
                    "This replaces the {before} objects of {id} by {count} objects. Continue?"
                );
                confirm(yes, &question)?;
            }
            // The precondition fails if another caller has changed the catalog.
            let wanted = Catalog {
                version: known.version,
                objects,
            };
            let kept: Catalog = hub.put(&path(&id), &wanted).await?;
            show(&output.output, &kept)
        }
    }
}

fn path(id: &ClusterId) -> String {
    format!("/v1/clusters/{id}/catalog")
}

fn text(object: &Value, at: &str) -> String {
    let text = object.pointer(at).and_then(Value::as_str);
    output::plain(text.unwrap_or_default())
}

/// Names of the objects as `kind/namespace/name`, or `kind/name` without a namespace.
fn names(catalog: &Catalog) -> String {
    let name = |object: &Value| {
        let parts = ["/kind", "/metadata/namespace", "/metadata/name"];
        let parts = parts.map(|at| text(object, at));
        let parts: Vec<_> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        parts.join("/") + "\n"
    };
    catalog.objects.iter().map(name).collect()
}

fn show(format: &OutputFormat, catalog: &Catalog) -> Result<(), Failure> {
    Ok(output::show_named(format, catalog, names, |catalog| {
        table(format, catalog)
    })?)
}

fn table(format: &OutputFormat, catalog: &Catalog) -> String {
    let fields = [
        "/apiVersion",
        "/kind",
        "/metadata/namespace",
        "/metadata/name",
    ];
    let rows = catalog
        .objects
        .iter()
        .map(|object| fields.map(|at| text(object, at).into()));
    let columns = [
        TableColumn::text("API VERSION").spare(1),
        TableColumn::text("KIND"),
        TableColumn::id("NAMESPACE"),
        TableColumn::id("NAME"),
    ];
    let table = output::table(format, &columns, rows);
    format!("{table}\nversion: {}\n", catalog.version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_named_like_in_kubernetes() {
        let catalog = Catalog {
            version: 3,
            objects: vec![
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } }),
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s\u{1b}", "namespace": "a" } }),
            ],
        };
        assert_eq!(names(&catalog), "Namespace/a\nSecret/a/s \n");
        assert!(table(&OutputFormat::Wide, &catalog).ends_with("\nversion: 3\n"));
    }
}
