//! `fairlead audit`: changes with their authors, and the values before and after.

mod requests;
mod verify;

use fairlead_api::{ClusterId, Failure, resources::List};
use fairlead_client::{
    Environment, HubClient,
    lookup::{find, id_of},
    query_of,
};
use fairlead_store::{Change, Revision};
use serde_json::Value;

use crate::{
    args,
    output::{self, Cell, TableColumn, short},
    runtime::block_on,
    tenant_filter::check_tenant,
};

pub(crate) fn run(args: args::Audit, environment: &Environment) -> Result<(), Failure> {
    match &args.command {
        Some(args::AuditCommand::Requests(args)) => return requests::run(args, environment),
        Some(args::AuditCommand::Verify { dir, heads }) => return verify::run(dir, heads),
        None => {}
    }
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let cluster = match &args.cluster {
            Some(name) => Some(id_of(&hub, name).await?),
            None => None,
        };
        let (changes, goes_on) = lines(&hub, &query(&args, cluster.as_ref()), args.limit).await?;
        if changes.items.is_empty() {
            // The log has deleted resources, too: an unknown resource is an error only if the log has no entry for it.
            check_tenant(&hub, args.tenant.as_ref()).await?;
            if let Some(id) = cluster {
                find(&hub, id.as_str()).await?;
            }
        }
        output::show_list(&args.output.output, &changes, "changes", &columns(), cells)?;
        if let Some(before) = goes_on {
            output::note(&format!("there is more: --before {before}"));
        }
        Ok(())
    })?
}

/// Reads the requested number of entries and the rest of the last change. Also returns the revision for `--before`, from
/// which a further call continues without gaps.
async fn lines(
    hub: &HubClient,
    query: &str,
    limit: u16,
) -> Result<(List<Change>, Option<Revision>), Failure> {
    let mut items: Vec<Change> = Vec::new();
    let mut next = Some(format!("/v1/audit?{query}"));
    while let Some(path) = next {
        let (page, behind): (List<Change>, _) = hub.get_page(&path).await?;
        for line in page.items {
            if let Some(last) = items.last()
                && items.len() >= usize::from(limit)
                && last.revision != line.revision
            {
                let goes_on = Some(last.revision);
                return Ok((List { items }, goes_on));
            }
            items.push(line);
        }
        next = behind;
    }
    Ok((List { items }, None))
}

fn query(args: &args::Audit, cluster: Option<&ClusterId>) -> String {
    query_of([
        ("cluster", cluster.map(ToString::to_string)),
        ("tenant", args.tenant.as_ref().map(ToString::to_string)),
        ("actor", args.actor.clone()),
        ("before", args.before.as_ref().map(ToString::to_string)),
        ("limit", Some(args.limit.to_string())),
    ])
}

pub(crate) fn columns() -> [TableColumn; 8] {
    [
        TableColumn::word("REVISION"),
        TableColumn::word("AT").wide(),
        TableColumn::word("AGE"),
        TableColumn::word("KIND").spare(1),
        TableColumn::id("ID"),
        TableColumn::word("CHANGE"),
        TableColumn::text("BY"),
        TableColumn::text("VALUES").spare(2),
    ]
}

pub(crate) fn cells(change: &Change) -> [Cell; 8] {
    [
        change.revision.to_string().into(),
        output::time(change.at).into(),
        Cell::Since(change.at),
        change.kind.to_string().into(),
        change.id.clone().into(),
        change.operation.as_str().into(),
        change.actor.clone().into(),
        different(change).into(),
    ]
}

/// Changed values of an update; those of a creation or a deletion would not fit on a line.
fn different(change: &Change) -> String {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return String::new();
    };
    let mut parts = Vec::new();
    compare("", Some(before), Some(after), &mut parts);
    parts.join("; ")
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, parts: &mut Vec<String>) {
    let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    match (fields(before), fields(after)) {
        (None, None) => {
            let shown = |value: Option<&Value>| value.map_or("-".to_owned(), short);
            parts.push(format!("{path}: {} > {}", shown(before), shown(after)));
        }
        (old, new) => {
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{name}");
                if old.get(name) != new.get(name) {
                    compare(&path, old.get(name), new.get(name), parts);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn update_is_shown_value_by_value() {
        let before = json!({ "displayName": "A", "facts": { "cloud": "aws", "zone": "a" } });
        let after = json!({ "displayName": "B", "facts": { "cloud": "aws", "sla": "gold" } });
        let mut parts = Vec::new();
        compare("", Some(&before), Some(&after), &mut parts);
        assert_eq!(
            parts,
            [
                "displayName: A > B",
                "facts.zone: a > -",
                "facts.sla: - > gold"
            ]
        );
    }
}
