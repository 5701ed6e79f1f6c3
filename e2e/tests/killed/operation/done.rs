//! Effect of an operation.

use serde_json::{Value, json};

use super::{CLUSTER, LoadOperation, LoadStep, LoadWorld, TENANT, TOKEN, What, of_kind};

impl LoadOperation {
    /// Applies the operation to the world and returns its log lines.
    pub(crate) fn done(&self, world: &mut LoadWorld) -> LoadStep {
        let (id, said) = (&self.id, json!(self.number.to_string()));
        let mut step = LoadStep::new();
        match self.what {
            What::MakeTenant => {
                let made = json!({ "displayName": said, "version": 1 });
                world.insert(format!("{TENANT}{id}"), made);
                step.push(format!("{TENANT}{id} created"));
            }
            What::RenameTenant => {
                change(world, TENANT, id, &mut step)["displayName"] = said;
            }
            What::DropTenant => {
                let clusters = of_kind(world, CLUSTER).into_iter();
                let within = clusters.filter(|cluster| {
                    let there = world.get(&format!("{CLUSTER}{cluster}"));
                    there.is_some_and(|it| it["tenant"] == *id)
                });
                for cluster in within.map(str::to_owned).collect::<Vec<_>>() {
                    take_away(world, &cluster, &mut step);
                }
                world.remove(&format!("{TENANT}{id}"));
                step.push(format!("{TENANT}{id} deleted"));
            }
            What::MakeCluster => {
                let made = json!({
                    "tenant": self.of, "displayName": said, "facts": { "n": said }, "dynamicFacts": {}, "compileMeta": {},
                    "version": 1, "bootstrap": "valid", "generation": 1,
                });
                world.insert(format!("{CLUSTER}{id}"), made);
                step.push(format!("{CLUSTER}{id} created"));
            }
            What::DropCluster => take_away(world, id, &mut step),
            What::MakeToken => {
                let role = self.of.as_ref().map_or("viewer", |_| "cluster");
                let made = json!({ "role": role, "cluster": self.of });
                world.insert(format!("{TOKEN}{id}"), made);
                step.push("token created".to_owned());
            }
            What::DropToken => {
                world.remove(&format!("{TOKEN}{id}"));
                step.push("token deleted".to_owned());
            }
            _ => self.change_cluster(world, &mut step),
        }
        step.sort();
        step
    }

    fn change_cluster(&self, world: &mut LoadWorld, step: &mut LoadStep) {
        let (id, said) = (&self.id, json!(self.number.to_string()));
        let cluster = change(world, CLUSTER, id, step);
        match self.what {
            What::Patch => {
                cluster["displayName"] = said.clone();
                cluster["facts"]["n"] = said;
                cluster["dynamicFacts"]["n"] = json!(self.number);
            }
            What::Put => {
                cluster["displayName"] = said.clone();
                cluster["facts"] = json!({ "n": said });
            }
            What::Report => {
                cluster["facts"]["steward"] = said;
                cluster["dynamicFacts"]["steward"] = json!(self.number);
            }
            What::Compile => cluster["compileMeta"] = self.compiled(),
            What::Uninvite => cluster["bootstrap"] = json!("revoked"),
            What::Invite => invite(cluster),
            What::Move => {
                cluster["tenant"] = json!(self.of);
                invite(cluster);
                void_tokens(world, id, step);
            }
            What::Spend => {
                cluster["bootstrap"] = json!("used");
                let token = json!({ "role": "cluster", "cluster": id });
                // It has the name of its cluster.
                if world.insert(format!("{TOKEN}{id}"), token).is_some() {
                    step.push("token deleted".to_owned());
                }
                step.push("token created".to_owned());
            }
            _ => {}
        }
    }
}

/// Increments the version of an object.
fn change<'a>(
    world: &'a mut LoadWorld,
    kind: &str,
    id: &str,
    step: &mut LoadStep,
) -> &'a mut Value {
    step.push(format!("{kind}{id} updated"));
    let it = world.entry(format!("{kind}{id}")).or_default();
    it["version"] = json!(it["version"].as_u64().unwrap_or_default() + 1);
    it
}

fn invite(cluster: &mut Value) {
    cluster["bootstrap"] = json!("valid");
    cluster["generation"] = json!(cluster["generation"].as_u64().unwrap_or_default() + 1);
}

fn take_away(world: &mut LoadWorld, cluster: &str, step: &mut LoadStep) {
    void_tokens(world, cluster, step);
    world.remove(&format!("{CLUSTER}{cluster}"));
    step.push(format!("{CLUSTER}{cluster} deleted"));
}

fn void_tokens(world: &mut LoadWorld, cluster: &str, step: &mut LoadStep) {
    let before = world.len();
    world.retain(|key, it| !key.starts_with(TOKEN) || it["cluster"] != cluster);
    let gone = before - world.len();
    step.extend(vec!["token deleted".to_owned(); gone]);
}
