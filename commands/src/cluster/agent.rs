//! `fairlead cluster agent`: agent settings of a cluster, which override those of its tenant.

use fairlead_api::{
    Code, Failure,
    gitops::{GitOpsTool, SshKeyType},
    tcp::joined_ports,
};
use fairlead_client::{HubClient, Precondition, Tagged, lookup::find};
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    args::{AgentField, AgentFields, ClusterAgent},
    output::{self, Cell, OutputFormat, TableColumn},
};

mod tool;

const NOT_APPLIED_YET: &str =
    "note: the hub keeps the version as a note; `fairlead agent upgrade` changes agents";

pub(super) async fn run(hub: &HubClient, command: ClusterAgent) -> Result<(), Failure> {
    match command {
        ClusterAgent::Get { name, output } => {
            let (_, known) = settings(hub, &name).await?;
            show(&output.output, &known.value)
        }
        ClusterAgent::Set {
            name,
            fields,
            output,
        } => {
            if fields.agent_version.is_some() {
                output::note(NOT_APPLIED_YET);
            }
            let amend = |settings| amended(settings, *fields);
            change(hub, &name, amend, &output.output).await
        }
        ClusterAgent::RotateKey { name, output } => {
            change(hub, &name, rotated, &output.output).await
        }
        ClusterAgent::ConfirmKey {
            name,
            fingerprint,
            output,
        } => {
            let confirm = |settings| with_gitops(settings, "confirmedKey", fingerprint.into());
            change(hub, &name, confirm, &output.output).await
        }
    }
}

/// Changes the settings, unless someone else has changed them meanwhile.
async fn change(
    hub: &HubClient,
    name: &str,
    amend: impl FnOnce(Value) -> Result<Value, Failure>,
    format: &OutputFormat,
) -> Result<(), Failure> {
    let (path, known) = settings(hub, name).await?;
    let wanted = amend(known.value.clone())?;
    if wanted == known.value {
        return show(format, &wanted);
    }
    let precondition = Precondition::Unchanged(&known.tag);
    let kept = hub
        .send_conditional(Method::PUT, &path, &wanted, precondition)
        .await?;
    show(format, &kept)
}

/// Requests one more rotation of the key.
fn rotated(settings: Value) -> Result<Value, Failure> {
    let rotation = settings.pointer("/gitops/rotation").and_then(Value::as_u64);
    let next = rotation.unwrap_or(0).saturating_add(1);
    with_gitops(settings, "rotation", next.into())
}

/// Sets a field of the settings of the GitOps tool.
fn with_gitops(mut settings: Value, field: &str, value: Value) -> Result<Value, Failure> {
    let Value::Object(fields) = &mut settings else {
        return Err(Failure::new(Code::Internal));
    };
    let gitops = fields.entry(AgentField::Gitops.name());
    if let Value::Object(gitops) = gitops.or_insert_with(|| Value::Object(Map::new())) {
        gitops.insert(field.to_owned(), value);
    }
    Ok(settings)
}

async fn settings(hub: &HubClient, name: &str) -> Result<(String, Tagged), Failure> {
    let cluster = find(hub, name).await?;
    let path = format!("/v1/clusters/{}/agent", cluster.id);
    let known = hub.get_tagged(&path).await?.ok_or(Code::NoSuchCluster)?;
    Ok((path, known))
}

/// Applies the given flags to the settings; other settings stay as they are.
fn amended(settings: Value, given: AgentFields) -> Result<Value, Failure> {
    let Value::Object(mut settings) = settings else {
        return Err(Failure::new(Code::Internal));
    };
    for field in given.inherit {
        settings.remove(field.name());
    }
    let mut put = |field: AgentField, value: Option<Value>| {
        if let Some(value) = value {
            settings.insert(field.name().to_owned(), value);
        }
    };
    put(AgentField::Version, given.agent_version.map(Value::from));
    let allowed = given.allow_connect.map(|rules| connect_rules(&rules));
    put(AgentField::AllowConnect, allowed);
    let facts = [
        (
            "intervalSeconds",
            given.facts_every.map(|every| json!(every.0.as_secs())),
        ),
        (
            "disabledCollectors",
            given.facts_off.map(|off| listed(&off)),
        ),
        (
            "annotationPrefixes",
            given.annotation_prefixes.map(|it| listed(&it)),
        ),
        (
            "contactPrefixes",
            given.contact_prefixes.map(|it| listed(&it)),
        ),
    ];
    for (name, value) in facts {
        let Some(value) = value else { continue };
        let facts = settings.entry(AgentField::Facts.name());
        let facts = facts.or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(facts) = facts {
            facts.insert(name.to_owned(), value);
        }
    }
    let mut settings = Value::Object(settings);
    if let Some(tool) = given.gitops {
        let tool = GitOpsTool::from(tool).as_str();
        settings = with_gitops(settings, "tool", tool.into())?;
    }
    if let Some(kind) = given.key_type {
        let kind = SshKeyType::from(kind).as_str();
        settings = with_gitops(settings, "keyType", kind.into())?;
    }
    tool::amended(settings, given.tool)
}

/// Parses a list like `A,B`; an empty text is an empty list.
fn listed(text: &str) -> Value {
    let items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    items.collect()
}

/// Rules with ports behind commas, too.
fn connect_rules(text: &str) -> Value {
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    joined_ports(parts.map(str::to_owned)).into()
}

fn show(format: &OutputFormat, settings: &Value) -> Result<(), Failure> {
    Ok(output::show(format, settings, |settings| {
        table(format, settings)
    })?)
}

fn table(format: &OutputFormat, settings: &Value) -> String {
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "(inherited)".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.is_empty() => "none".to_owned(),
        Some(Value::Array(items)) => {
            let items = items.iter().filter_map(Value::as_str);
            items.collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    };
    let mut rows: Vec<[Cell; 2]> = Vec::new();
    for field in AgentField::ALL {
        let value = settings.get(field.name());
        match value {
            Some(Value::Object(parts)) => {
                for (name, value) in parts {
                    let setting = format!("{}.{name}", field.name());
                    rows.push([setting.into(), shown(Some(value)).into()]);
                }
            }
            value => rows.push([field.name().into(), shown(value).into()]),
        }
    }
    let columns = [TableColumn::id("SETTING"), TableColumn::text("VALUE")];
    output::table(format, &columns, rows)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        fields: AgentFields,
    }

    fn set(settings: Value, flags: &[&str]) -> Value {
        let args = Args::try_parse_from([&["x"], flags].concat()).unwrap();
        amended(settings, args.fields).unwrap()
    }

    #[test]
    fn given_flags_are_set_and_other_settings_stay() {
        let before = json!({ "version": "1", "facts": { "intervalSeconds": 60, "disabledCollectors": ["helm"] } });
        assert_eq!(set(before.clone(), &[]), before);
        let flags = [
            "--facts-every",
            "2m",
            "--allow-connect",
            "db:5432, api:443",
            "--facts-off",
            "",
        ];
        let after = json!({
            "version": "1", "facts": { "intervalSeconds": 120, "disabledCollectors": [] }, "allowConnect": ["db:5432", "api:443"],
        });
        assert_eq!(set(before.clone(), &flags), after);
        let left = ["--inherit", "facts,version", "--allow-connect", ""];
        assert_eq!(set(before, &left), json!({ "allowConnect": [] }));
        assert_eq!(
            set(json!({}), &["--contact-prefixes", "a/"]),
            json!({ "facts": { "contactPrefixes": ["a/"] } })
        );
    }

    #[test]
    fn each_request_for_a_rotation_counts_one_further() {
        let flux = set(json!({}), &["--gitops", "flux", "--key-type", "rsa"]);
        assert_eq!(
            flux,
            json!({ "gitops": { "tool": "flux", "keyType": "rsa" } })
        );
        let once = rotated(flux).unwrap();
        assert_eq!(once["gitops"]["rotation"], 1);
        assert_eq!(rotated(once).unwrap()["gitops"]["rotation"], 2);
        assert_eq!(
            rotated(json!({})).unwrap(),
            json!({ "gitops": { "rotation": 1 } })
        );
        let left = set(
            json!({ "gitops": { "tool": "flux" } }),
            &["--inherit", "gitops"],
        );
        assert_eq!(left, json!({}));
    }

    #[test]
    fn table_shows_inherited_settings() {
        let told = table(
            &OutputFormat::Wide,
            &json!({ "facts": { "intervalSeconds": 60, "disabledCollectors": [] } }),
        );
        assert!(
            told.contains("facts.intervalSeconds") && told.contains("none"),
            "{told}"
        );
        assert!(told.contains("(inherited)"), "{told}");
    }
}
