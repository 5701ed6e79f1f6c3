//! `fairlead adoption`: decisions about agents that announced themselves without a join string.

use fairlead_api::{
    ClusterId, Failure,
    adoption::AdoptionCode,
    resources::{Adoption, AdoptionByCode, ApproveAdoption, CreateCluster, JoinInfo, List},
};
use fairlead_client::{Environment, HubClient, lookup::id_of};

use crate::{
    args,
    cluster::{named_tenant, own_tenant},
    confirm::confirm,
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

const ADOPTIONS_PATH: &str = "/v1/adoptions";

pub(crate) fn run(command: args::AdoptionArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::AdoptionArgs::List(output) => {
                let found: List<Adoption> = hub.get(ADOPTIONS_PATH).await?;
                let (format, name) = (&output.output, "waiting agents");
                Ok::<_, Failure>(output::show_list(format, &found, name, &columns(), cells)?)
            }
            args::AdoptionArgs::Approve(asked) => approve(&hub, asked).await,
            args::AdoptionArgs::Refuse { code, yes } => {
                let waiting = find(&hub, code).await?;
                eprint!("{}", described(&waiting));
                confirm(yes, "Refuse this agent?")?;
                let body = AdoptionByCode {
                    code: code.to_string(),
                };
                let path = format!("{ADOPTIONS_PATH}/refuse");
                let refused: Adoption = hub.post(&path, &body).await?;
                Ok(output::print(&format!("Refused {}.\n", refused.id))?)
            }
        }
    })?
}

async fn find(hub: &HubClient, code: AdoptionCode) -> Result<Adoption, Failure> {
    let body = AdoptionByCode {
        code: code.to_string(),
    };
    Ok(hub.post(&format!("{ADOPTIONS_PATH}/find"), &body).await?)
}

/// Looks the agent up first, so that a wrong code registers no cluster.
async fn approve(hub: &HubClient, asked: args::ApproveArgs) -> Result<(), Failure> {
    let waiting = find(hub, asked.code).await?;
    eprint!("{}", described(&waiting));
    let question = match (&asked.cluster, &asked.name) {
        (Some(cluster), _) => format!("Approve this agent for the cluster {cluster}?"),
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            format!("Approve this agent for the new cluster {name}?")
        }
    };
    confirm(asked.yes, &question)?;
    let cluster = match &asked.cluster {
        Some(cluster) => id_of(hub, cluster).await?,
        None => register(hub, &asked).await?,
    };
    let body = ApproveAdoption {
        code: asked.code.to_string(),
        cluster,
        key_fingerprint: asked.key,
    };
    let approved: Adoption = hub
        .post(&format!("{ADOPTIONS_PATH}/approve"), &body)
        .await?;
    Ok(output::show(&asked.output.output, &approved, |it| {
        let cluster = it.cluster.as_ref().map_or("", ClusterId::as_str);
        format!(
            "Approved {} as the agent of {cluster}. It enrols within seconds.\n",
            it.id
        )
    })?)
}

async fn register(hub: &HubClient, asked: &args::ApproveArgs) -> Result<ClusterId, Failure> {
    let tenant = match &asked.tenant {
        Some(tenant) => named_tenant(tenant)?,
        None => own_tenant(hub).await?,
    };
    let create = CreateCluster {
        id: None,
        display_name: asked.name.clone(),
        tenant,
        more: serde_json::Map::new(),
    };
    let made: JoinInfo = hub.post("/clusters?uniqueName=true", &create).await?;
    Ok(made.id)
}

fn described(waiting: &Adoption) -> String {
    let unknown = || "unknown".to_owned();
    format!(
        "Agent {} at {}\n  key:         {}\n  cluster UID: {}\n  Kubernetes:  {}\n",
        waiting.id,
        waiting.address,
        waiting.key_fingerprint,
        waiting.cluster_uid.clone().unwrap_or_else(unknown),
        waiting.kubernetes_version.clone().unwrap_or_else(unknown),
    )
}

fn columns() -> [TableColumn; 9] {
    [
        TableColumn::key("ID"),
        TableColumn::word("STATE"),
        TableColumn::id("ADDRESS"),
        TableColumn::word("KUBERNETES"),
        TableColumn::id("CLUSTER UID"),
        TableColumn::id("KEY"),
        TableColumn::id("CLUSTER"),
        TableColumn::id("DECIDED BY"),
        TableColumn::word("AGE").wide(),
    ]
}

fn cells(waiting: &Adoption) -> [Cell; 9] {
    let cluster = waiting.cluster.as_ref();
    [
        waiting.id.clone().into(),
        waiting.state.to_string().into(),
        waiting.address.clone().into(),
        waiting
            .kubernetes_version
            .clone()
            .unwrap_or_default()
            .into(),
        waiting.cluster_uid.clone().unwrap_or_default().into(),
        waiting.key_fingerprint.clone().into(),
        cluster.map_or_else(String::new, ToString::to_string).into(),
        waiting.decided_by.clone().unwrap_or_default().into(),
        Cell::Since(waiting.created),
    ]
}
