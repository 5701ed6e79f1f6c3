//! `fairlead maintenance`: open merge requests in the repositories of a tenant.

use std::collections::BTreeMap;

use fairlead_api::{
    Code, Failure, TenantId, percent,
    resources::{CiState, MergeOrder, MergeRequestDocument, MergeRequestList, MergeState},
};
use fairlead_client::{Environment, HubClient};
use http::Method;

use crate::{
    args::{MaintenanceArgs, MergeArgs, MergeRequestFilters},
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
    runtime::block_on,
};

const DEFAULT_TENANT: &str = "t-default";

pub(crate) fn run(command: MaintenanceArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            MaintenanceArgs::List(asked) => {
                let mut list = list(&hub, &asked.filters).await?;
                if let Some(ci) = asked.ci.map(CiState::from) {
                    list.items.retain(|it| it.ci == ci);
                }
                let names = |list: &MergeRequestList| {
                    let items = list.items.iter();
                    items.map(|it| format!("{}\n", it.id)).collect()
                };
                let table = |list: &MergeRequestList| table(&list.items);
                output::show_named(&asked.output.output, &list, names, table)?;
                complete(&list)
            }
            MaintenanceArgs::Merge(asked) => merge(&hub, asked).await,
        }
    })?
}

fn path_of(filters: &MergeRequestFilters) -> String {
    let tenant = filters.tenant.as_ref();
    let tenant = tenant.map_or(DEFAULT_TENANT, TenantId::as_str);
    format!("/v1/tenants/{tenant}/merge-requests")
}

async fn list(hub: &HubClient, filters: &MergeRequestFilters) -> Result<MergeRequestList, Failure> {
    let given = [("label", &filters.label), ("author", &filters.author)];
    let given = given.into_iter().filter_map(|(name, value)| {
        let value = percent::encode(value.as_deref()?);
        Some(format!("{name}={value}"))
    });
    let query = given.collect::<Vec<_>>().join("&");
    let list: MergeRequestList = hub.get(&format!("{}?{query}", path_of(filters))).await?;
    for failure in &list.failures {
        output::note(&format!("{}: {}", failure.owner, failure.reason));
    }
    Ok(list)
}

/// Fails if a repository is missing in the list.
fn complete(list: &MergeRequestList) -> Result<(), Failure> {
    match list.failures.len() {
        0 => Ok(()),
        count => {
            let cause = format_args!("{count} repositories are not in the list");
            Err(Failure::because(Code::GitServerAway, cause))
        }
    }
}

async fn merge(hub: &HubClient, asked: MergeArgs) -> Result<(), Failure> {
    let path = path_of(&asked.filters);
    if !asked.all {
        if asked.dry_run {
            let names = asked.ids.join(" ");
            return Ok(output::print(&format!("Would merge {names}\n"))?);
        }
        let question = format!("{} merge requests are merged. Continue?", asked.ids.len());
        confirm(asked.yes, &question)?;
        let orders = asked.ids.iter().map(|id| (id.as_str(), None));
        return merge_each(hub, &path, orders.collect()).await;
    }
    let list = list(hub, &asked.filters).await?;
    let (ready, others) = selected(&list.items, asked.ci.into());
    for (request, obstacle) in &others {
        output::print(&format!("skipped {}: {obstacle}\n", request.id))?;
    }
    if asked.dry_run {
        for request in &ready {
            output::print(&format!("would merge {}: {}\n", request.id, request.title))?;
        }
        return complete(&list);
    }
    if !ready.is_empty() {
        let (count, skipped) = (ready.len(), others.len());
        let question =
            format!("{count} merge requests are merged, {skipped} are skipped. Continue?");
        confirm(asked.yes, &question)?;
    }
    let ready = in_turns(&ready);
    let orders = ready
        .iter()
        .map(|it| (it.id.as_str(), Some(it.head.clone())));
    merge_each(hub, &path, orders.collect()).await?;
    complete(&list)
}

type Skipped<'a> = (&'a MergeRequestDocument, &'static str);

/// Merge requests to merge, and the others with the reason.
fn selected(
    items: &[MergeRequestDocument],
    ci: CiState,
) -> (Vec<&MergeRequestDocument>, Vec<Skipped<'_>>) {
    let (mut ready, mut others) = (Vec::new(), Vec::new());
    for request in items {
        let obstacle = match (request.ci, request.merge) {
            _ if request.draft => "a draft",
            (found, _) if found != ci => match found {
                CiState::Failed => "its CI has failed",
                CiState::Pending => "its CI has not ended",
                CiState::None => "no CI has reported",
                CiState::Passed => "its CI has passed",
            },
            (_, MergeState::Blocked) => "conflicts, or a rule of the server",
            (_, MergeState::Unknown) => "not checked for conflicts yet",
            (_, MergeState::Clean) => {
                ready.push(request);
                continue;
            }
        };
        others.push((request, obstacle));
    }
    (ready, others)
}

/// Merges one after the other, and stops if the server limits requests. Servers check the others for
/// conflicts again after each merge, so refused ones are tried again as long as others get merged.
async fn merge_each(
    hub: &HubClient,
    path: &str,
    orders: Vec<(&str, Option<String>)>,
) -> Result<(), Failure> {
    let count = orders.len();
    let mut waiting = orders;
    let mut refused = Vec::new();
    loop {
        let before = waiting.len();
        let mut orders = waiting.into_iter();
        refused.clear();
        waiting = Vec::new();
        for (id, head) in orders.by_ref() {
            let order = MergeOrder { head: head.clone() };
            let at = format!("{path}/{}/merge", percent::encode(id));
            let done = hub.send_json(Method::POST, &at, &order).await;
            let Err(failure) = done.map_err(Failure::from) else {
                output::print(&format!("merged {id}\n"))?;
                continue;
            };
            let is_refused = failure.code == Code::MergeRefused;
            refused.push((id, failure.cause));
            match is_refused {
                true => waiting.push((id, head)),
                false => break,
            }
        }
        let untried = orders.len();
        let is_stuck = waiting.len() == before || untried > 0 || refused.len() > waiting.len();
        if waiting.is_empty() || is_stuck {
            return summary(count, &refused, untried);
        }
    }
}

/// Prints the refused ones with their reasons, and the numbers of all.
fn summary(count: usize, refused: &[(&str, String)], untried: usize) -> Result<(), Failure> {
    for (id, cause) in refused {
        output::print(&format!("not merged {id}: {cause}\n"))?;
    }
    let others = refused.len() + untried;
    let (merged, refused) = (count.saturating_sub(others), refused.len());
    output::print(&format!(
        "{merged} merged, {refused} refused, {untried} not tried\n"
    ))?;
    match others {
        0 => Ok(()),
        others => {
            let cause = format_args!("{others} of {count} were not merged");
            Err(Failure::because(Code::MergeRefused, cause))
        }
    }
}

/// Takes turns between repositories: a server checks one for conflicts while another is merged.
fn in_turns<'a>(ready: &[&'a MergeRequestDocument]) -> Vec<&'a MergeRequestDocument> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let numbered = ready.iter().map(|it| {
        let count = counts.entry(it.repository.as_str()).or_default();
        *count += 1;
        (*count, *it)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, it)| it).collect()
}

fn table(items: &[MergeRequestDocument]) -> String {
    let columns = [
        TableColumn::key("ID"),
        TableColumn::word("CI"),
        TableColumn::word("MERGE"),
        TableColumn::word("AUTHOR"),
        TableColumn::word("LABELS"),
        TableColumn::word("TITLE"),
    ];
    let rows = items.iter().map(|it| {
        let merge = if it.draft { "draft" } else { it.merge.as_str() };
        [
            it.id.clone().into(),
            it.ci.as_str().into(),
            merge.into(),
            it.author.clone().into(),
            it.labels.join(",").into(),
            it.title.clone().into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, ci: CiState, merge: MergeState, draft: bool) -> MergeRequestDocument {
        MergeRequestDocument {
            id: format!("c-edge!{number}"),
            repository: String::new(),
            title: "Update redis".to_owned(),
            url: String::new(),
            author: "renovate".to_owned(),
            labels: Vec::new(),
            branch: "renovate/redis".to_owned(),
            head: "5e1c309d".to_owned(),
            draft,
            ci,
            merge,
        }
    }

    #[test]
    fn only_ready_ones_are_merged_together() {
        let items = [
            request(1, CiState::Passed, MergeState::Clean, false),
            request(2, CiState::Failed, MergeState::Clean, false),
            request(3, CiState::Passed, MergeState::Blocked, false),
            request(4, CiState::Pending, MergeState::Clean, false),
            request(5, CiState::Passed, MergeState::Unknown, false),
            request(6, CiState::Passed, MergeState::Clean, true),
            request(7, CiState::None, MergeState::Clean, false),
        ];
        let numbers = |ci| {
            let (ready, others) = selected(&items, ci);
            assert_eq!(ready.len() + others.len(), items.len());
            ready.iter().map(|it| it.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(CiState::Passed), ["c-edge!1"]);
        assert_eq!(numbers(CiState::None), ["c-edge!7"]);
    }

    #[test]
    fn repositories_take_turns() {
        let of = |number, repository: &str| MergeRequestDocument {
            repository: repository.to_owned(),
            ..request(number, CiState::Passed, MergeState::Clean, false)
        };
        let items = [
            of(1, "a"),
            of(2, "a"),
            of(3, "a"),
            of(4, "b"),
            of(5, "c"),
            of(6, "c"),
        ];
        let ready: Vec<_> = items.iter().collect();
        let turns = in_turns(&ready);
        let numbers: Vec<&str> = turns.iter().map(|it| it.id.as_str()).collect();
        let expected = [
            "c-edge!1", "c-edge!4", "c-edge!5", "c-edge!2", "c-edge!6", "c-edge!3",
        ];
        assert_eq!(numbers, expected);
    }
}
