//! `fairlead import lieutenant`: imports Lieutenant's objects into the registry. It adds and changes fields and never removes
//! any. A repeated import changes only the differences.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    path::PathBuf,
};

use fairlead_api::{
    Code, Failure,
    facts::{ClusterFact, FactSource, ImportedFacts},
    resources::List,
};
use fairlead_apiserver::KubeObjects;
use fairlead_client::{
    Environment, HubClient, HubError, differences, files,
    import::{self, ImportPlan, PlannedCluster},
};
use http::Method;
use serde_json::{Value, json};

use crate::{args, output, runtime::block_on};

const KINDS: [(&str, &str); 4] = [
    ("tenants", "Tenant"),
    ("tenanttemplates", "TenantTemplate"),
    ("clusters", "Cluster"),
    ("gitrepos", "GitRepo"),
];

pub(crate) fn run(command: args::Import, environment: &Environment) -> Result<(), Failure> {
    let args::Import::Lieutenant {
        files,
        kubeconfig,
        context,
        namespace,
        dry_run,
    } = command;
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let objects = match kubeconfig {
            Some(path) => from_cluster(path, context, namespace.as_deref()).await?,
            None => from_files(&files)?,
        };
        let plan = import::plan(objects);
        let mut importer = Importer::new(hub, dry_run, &plan);
        let done = importer.carry_out(&plan).await;
        importer.progress.clear();
        for line in &plan.left_out {
            eprintln!("left out: {line}");
        }
        let told = importer.report();
        done?;
        Ok::<_, Failure>(output::print(&told)?)
    })?
}

async fn from_cluster(
    path: PathBuf,
    context: Option<String>,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let cluster = KubeObjects::of_kubeconfig(path, context);
    let within = namespace.map_or(String::new(), |name| format!("/namespaces/{name}"));
    let mut all = Vec::new();
    for (plural, kind) in KINDS {
        let path = format!("/apis/syn.tools/v1alpha1{within}/{plural}");
        let Some(mut items) = cluster.list(&path).await? else {
            let detail =
                format!("this cluster has no {plural}.syn.tools: no Lieutenant is installed in it");
            return Err(Failure::because(Code::NotFound, detail));
        };
        for item in &mut items {
            // The items of a list have no kind of their own.
            if let Some(fields) = item.as_object_mut() {
                fields
                    .entry("apiVersion")
                    .or_insert_with(|| "syn.tools/v1alpha1".into());
                fields.entry("kind").or_insert_with(|| kind.into());
            }
        }
        all.append(&mut items);
    }
    Ok(all)
}

fn from_files(paths: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for (name, text) in files::texts(paths)? {
        let objects = import::read(&text).map_err(|failure| Failure {
            cause: format!("{name}: {}", failure.cause),
            ..failure
        });
        all.extend(objects?);
    }
    Ok(all)
}

struct Importer {
    hub: HubClient,
    dry_run: bool,
    lines: Vec<String>,
    created: usize,
    changed: usize,
    unchanged: usize,
    progress: Progress,
}

impl Importer {
    fn new(hub: HubClient, dry_run: bool, plan: &ImportPlan) -> Self {
        Importer {
            hub,
            dry_run,
            lines: Vec::new(),
            created: 0,
            changed: 0,
            unchanged: 0,
            progress: Progress::new(plan.tenants.len() + plan.clusters.len()),
        }
    }

    async fn carry_out(&mut self, plan: &ImportPlan) -> Result<(), Failure> {
        for tenant in &plan.tenants {
            self.progress.step(tenant.id.as_str());
            let path = format!("/tenants/{}", tenant.id);
            let at = |failure: Failure| about(tenant.id.as_str(), failure);
            let now = self.hub.get_optional::<Value>(&path).await;
            let now = now.map_err(|error| at(error.into()))?;
            self.apply(&path, now.as_ref(), &tenant.document)
                .await
                .map_err(|error| at(error.into()))?;
        }
        for cluster in &plan.clusters {
            self.progress.step(cluster.id.as_str());
            let at = |failure: Failure| about(cluster.id.as_str(), failure);
            self.cluster(cluster).await.map_err(at)?;
        }
        Ok(())
    }

    async fn cluster(&mut self, cluster: &PlannedCluster) -> Result<(), Failure> {
        let path = format!("/clusters/{}", cluster.id);
        let now = self.hub.get_optional::<Value>(&path).await?;
        let tenant = |document: &Value| {
            document
                .get("tenant")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        if let Some(now) = &now
            && tenant(now) != tenant(&cluster.document)
        {
            let detail = format!(
                "{} is of tenant {} here, and of {} there",
                cluster.id,
                tenant(now).unwrap_or_default(),
                tenant(&cluster.document).unwrap_or_default()
            );
            return Err(Failure::because(Code::Conflict, detail));
        }
        let facts = self.facts_to_fill(&path, now.as_ref(), cluster).await?;
        self.apply_cluster(cluster, &path, now.as_ref(), &facts)
            .await?;
        let compiled = now
            .as_ref()
            .and_then(|now| now.get("compileMeta"))
            .unwrap_or(&Value::Null);
        if let Some(meta) = &cluster.compile_meta
            && !differences(compiled, meta).is_empty()
            && !is_newer(compiled, meta)
            && !self.dry_run
        {
            self.hub
                .send_json(Method::POST, &format!("{path}/compileMeta"), meta)
                .await?;
        }
        Ok(())
    }

    /// Facts of the other registry for which this hub has no value, or an imported one.
    async fn facts_to_fill(
        &self,
        path: &str,
        now: Option<&Value>,
        cluster: &PlannedCluster,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        let Some(Value::Object(planned)) = &cluster.dynamic_facts else {
            return Ok(BTreeMap::new());
        };
        let mut planned: BTreeMap<_, _> = planned.clone().into_iter().collect();
        let known = now.and_then(|now| now.get("dynamicFacts"));
        let known = |name: &str| known.and_then(|known| known.get(name));
        planned.retain(|name, value| known(name) != Some(&*value));
        if planned.keys().any(|name| known(name).is_some()) {
            let all: List<ClusterFact> = self.hub.get(&format!("/v1{path}/facts")).await?;
            let told = all.items.iter();
            let told = told.filter(|fact| fact.dynamic && fact.source != FactSource::Import);
            for fact in told {
                planned.remove(&fact.name);
            }
        }
        Ok(planned)
    }

    /// Imports a cluster with its facts.
    async fn apply_cluster(
        &mut self,
        cluster: &PlannedCluster,
        path: &str,
        now: Option<&Value>,
        facts: &BTreeMap<String, Value>,
    ) -> Result<(), Failure> {
        let mut shown = cluster.document.clone();
        if let Some(shown) = shown.as_object_mut().filter(|_| !facts.is_empty()) {
            shown.insert("dynamicFacts".to_owned(), json!(facts));
        }
        if !self.record(path, now, &shown) {
            return Ok(());
        }
        let document = &cluster.document;
        if now.is_none() {
            // The cluster has an agent already, so it gets no bootstrap token.
            let made = match cluster.awaits_agent {
                true => path.to_owned(),
                false => format!("{path}?withoutBootstrapToken=true"),
            };
            self.hub.send_json(Method::PUT, &made, document).await?;
        } else if now.is_some_and(|now| !differences(now, document).is_empty()) {
            self.patch(path, document).await?;
        }
        if facts.is_empty() {
            return Ok(());
        }
        let path = format!("/v1{path}/facts/imported");
        let facts = ImportedFacts {
            facts: facts.clone(),
        };
        Ok(self.hub.send_json(Method::POST, &path, &facts).await?)
    }

    /// Creates or changes one resource.
    async fn apply(
        &mut self,
        path: &str,
        now: Option<&Value>,
        planned: &Value,
    ) -> Result<(), HubError> {
        if !self.record(path, now, planned) {
            return Ok(());
        }
        match now {
            None => self.hub.send_json(Method::PUT, path, planned).await,
            Some(_) => self.patch(path, planned).await,
        }
    }

    /// Records the differences of one resource; true if there is something to write.
    fn record(&mut self, path: &str, now: Option<&Value>, planned: &Value) -> bool {
        let nothing = json!({});
        let differences = differences(now.unwrap_or(&nothing), planned);
        let (count, verb) = match now {
            Some(_) if differences.is_empty() => {
                self.unchanged += 1;
                return false;
            }
            Some(_) => (&mut self.changed, "change"),
            None => (&mut self.created, "create"),
        };
        *count += 1;
        let id = path.trim_start_matches('/');
        self.lines.push(format!("{verb} {id}"));
        self.lines
            .extend(differences.iter().map(|one| format!("  {one}")));
        !self.dry_run
    }

    async fn patch(&self, path: &str, planned: &Value) -> Result<(), HubError> {
        let mut patch = planned.clone();
        if let Some(fields) = patch.as_object_mut() {
            // The tenant is unchanged, and not allowed in a patch.
            fields.remove("tenant");
        }
        self.hub.send_json(Method::PATCH, path, &patch).await
    }

    /// Report of the import for standard output.
    fn report(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut text = self.lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        let Importer {
            created,
            changed,
            unchanged,
            ..
        } = self;
        text + &format!(
            "{created} {would}created, {changed} {would}changed, {unchanged} unchanged.\n"
        )
    }
}

/// True if the hub's compilation is newer than the imported one.
fn is_newer(known: &Value, imported: &Value) -> bool {
    use time::{OffsetDateTime, format_description::well_known::Rfc3339};
    let at = |of: &Value| {
        let text = of.get("lastCompile")?.as_str()?;
        OffsetDateTime::parse(text, &Rfc3339).ok()
    };
    at(known) > at(imported)
}

fn about(id: &str, failure: Failure) -> Failure {
    Failure {
        cause: format!(
            "{id}: {}; earlier objects are imported, run the import again to continue",
            failure.cause
        ),
        ..failure
    }
}

/// Progress line on a terminal; nothing elsewhere.
struct Progress {
    at: usize,
    of: usize,
    shown: bool,
}

impl Progress {
    fn new(of: usize) -> Self {
        let shown = io::stderr().is_terminal();
        Progress { at: 0, of, shown }
    }

    fn step(&mut self, id: &str) {
        self.at += 1;
        if self.shown {
            eprint!("\r\x1b[K{} of {}: {id}", self.at, self.of);
        }
    }

    fn clear(&self) {
        if self.shown && self.at > 0 {
            eprint!("\r\x1b[K");
        }
    }
}
