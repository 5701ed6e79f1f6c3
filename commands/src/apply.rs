//! `fairlead tenant|cluster apply -f`: creates and changes resources from documents. All documents are planned and validated
//! by the hub before the first one is written. Preconditions protect concurrent changes of other callers.

use std::collections::BTreeSet;

use fairlead_api::Failure;
use fairlead_client::{
    HubClient,
    documents::{
        self, Document, DocumentKind,
        plan::{self, ApplyMode, DocumentPlan, PlannedRequest},
    },
    files,
};

use crate::{args, confirm::confirm, output};

pub(crate) async fn run(
    hub: &HubClient,
    kind: DocumentKind,
    args: args::Apply,
) -> Result<(), Failure> {
    let documents = documents::read(&files::texts(&args.files)?, kind)?;
    let mode = match args.replace {
        true => ApplyMode::Replace,
        false => ApplyMode::Amend,
    };
    carry_out(hub, documents, mode, args.dry_run, args.yes).await
}

/// Applies one document that has only the fields to change.
pub(crate) async fn amend(
    hub: &HubClient,
    document: Document,
    dry_run: bool,
    yes: bool,
) -> Result<(), Failure> {
    carry_out(hub, vec![document], ApplyMode::Amend, dry_run, yes).await
}

async fn carry_out(
    hub: &HubClient,
    documents: Vec<Document>,
    mode: ApplyMode<'_>,
    dry_run: bool,
    yes: bool,
) -> Result<(), Failure> {
    let planned = plan_all(hub, documents, mode).await?;
    for (document, planned) in &planned {
        output::print(&shown(document, planned))?;
    }
    if dry_run {
        return Ok(output::print(&summary(&planned, "would be "))?);
    }
    let dangers: Vec<String> = planned.iter().filter_map(danger).collect();
    if !dangers.is_empty() {
        confirm(yes, &format!("{}. Continue?", dangers.join("; ")))?;
    }
    let last = summary(&planned, "");
    for (document, planned) in planned {
        let sent = plan::send(hub, &document, mode, planned).await;
        sent.map_err(|failure| about(&document, &failure, "; earlier documents are applied"))?;
    }
    Ok(output::print(&last)?)
}

async fn plan_all(
    hub: &HubClient,
    documents: Vec<Document>,
    mode: ApplyMode<'_>,
) -> Result<Vec<(Document, DocumentPlan)>, Failure> {
    // Tenants that these documents create.
    let mut new: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::with_capacity(documents.len());
    for document in documents {
        let pending = document.needs().is_some_and(|it| new.contains(it));
        let planned = plan::plan(hub, &document, mode, pending).await;
        let planned = planned.map_err(|failure| about(&document, &failure, ""))?;
        if matches!(planned.request, PlannedRequest::Create(_)) {
            new.insert(document.id.clone());
        }
        all.push((document, planned));
    }
    Ok(all)
}

fn about(document: &Document, failure: &Failure, more: &str) -> Failure {
    Failure {
        cause: format!("{document}: {}{more}", failure.cause),
        ..failure.clone()
    }
}

fn danger((document, planned): &(Document, DocumentPlan)) -> Option<String> {
    let dangers = planned.dangers.join(", ");
    (!dangers.is_empty()).then(|| format!("{document}: this {dangers}"))
}

pub(crate) fn shown(document: &Document, planned: &DocumentPlan) -> String {
    let word = match planned.request {
        PlannedRequest::Unchanged => return String::new(),
        PlannedRequest::Create(_) => "create",
        PlannedRequest::Patch(_) | PlannedRequest::Replace(_) => "change",
    };
    let lines = planned.lines.iter().map(|line| format!("  {line}\n"));
    format!("{word} {document}\n{}", lines.collect::<String>())
}

fn summary(all: &[(Document, DocumentPlan)], would: &str) -> String {
    let count =
        |is: fn(&PlannedRequest) -> bool| all.iter().filter(|(_, it)| is(&it.request)).count();
    let created = count(|plan| matches!(plan, PlannedRequest::Create(_)));
    let unchanged = count(|plan| *plan == PlannedRequest::Unchanged);
    let changed = all.len() - created - unchanged;
    format!("{created} {would}created, {changed} {would}changed, {unchanged} unchanged.\n")
}
