//! `fairlead ca`: rotation of the hub's CA.

use std::fmt::Write as _;

use fairlead_api::{
    Failure,
    resources::{CaPhase, CaStatus, RetireCa},
};
use fairlead_client::{Environment, HubClient};

use crate::{
    args,
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
    runtime::block_on,
};

pub(crate) fn run(command: args::CaArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        let (status, output): (CaStatus, _) = match command {
            args::CaArgs::Status(output) => (hub.get("/v1/ca").await?, output),
            args::CaArgs::Rotate { yes, output } => {
                confirm(
                    yes,
                    "This creates a new CA. Agents take it over by themselves. Continue?",
                )?;
                (hub.post("/v1/ca/rotation", &()).await?, output)
            }
            args::CaArgs::Retire(asked) => (retire(&hub, &asked).await?, asked.output),
        };
        Ok(output::show(&output.output, &status, text)?)
    })?
}

/// `fairlead confirm-restore`
pub(crate) fn confirm_restore(
    asked: &args::ConfirmRestore,
    environment: &Environment,
) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    confirm(
        asked.yes,
        "This makes identities and API tokens from before the restore valid again. Continue?",
    )?;
    let path = "/v1/restore/confirmation";
    block_on(hub.send_json(http::Method::POST, path, &()))??;
    Ok(output::print("Confirmed the restore.\n")?)
}

async fn retire(hub: &HubClient, asked: &args::RetireArgs) -> Result<CaStatus, Failure> {
    let before: CaStatus = hub.get("/v1/ca").await?;
    let loss = match (asked.force, before.behind.len()) {
        (true, behind @ 1..) => format!(" {behind} clusters have to enrol again."),
        _ => String::new(),
    };
    let question = format!(
        "This ends the trust in the old CA. Unless the hub has a certificate of your own, kubeconfigs and logins from \
         before the rotation end.{loss} Continue?"
    );
    confirm(asked.yes, &question)?;
    let retire = RetireCa { force: asked.force };
    Ok(hub.post("/v1/ca/retirement", &retire).await?)
}

fn text(status: &CaStatus) -> String {
    let mut text = format!("phase:     {}\n", status.phase.as_str());
    if status.phase == CaPhase::Rotating {
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "enrolled:  {}\ntrusting:  {}\nidentity:  {}\nbehind:    {}",
            status.enrolled,
            status.trusting,
            status.identified,
            status.behind.len()
        );
    }
    if let Some(at) = status.unconfirmed_restore {
        let at = fairlead_api::moment::timestamp(at);
        let _ = writeln!(text, "restored:  {at}, not confirmed");
    }
    text.push('\n');
    text.push_str(&authorities(status));
    if !status.behind.is_empty() {
        text.push('\n');
        text.push_str(&behind(status));
    }
    text
}

fn authorities(status: &CaStatus) -> String {
    let columns = [
        TableColumn::key("CA"),
        TableColumn::word("FROM"),
        TableColumn::word("UNTIL"),
        TableColumn::word("SIGNS"),
    ];
    let date = |at: time::OffsetDateTime| at.date().to_string();
    let trusted = status.authorities.iter().map(|it| {
        let signs = match (it.signs_hub, it.signs_identities) {
            (true, true) => "hub, identities",
            (true, false) => "hub",
            (false, true) => "identities",
            (false, false) => "nothing",
        };
        [
            it.pin.to_string().into(),
            date(it.not_before).into(),
            date(it.not_after).into(),
            signs.into(),
        ]
    });
    let retired = status.retired.iter().map(|it| {
        [
            it.pin.to_string().into(),
            "".into(),
            date(it.at).into(),
            "retired".into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, trusted.chain(retired))
}

fn behind(status: &CaStatus) -> String {
    let columns = [
        TableColumn::key("BEHIND"),
        TableColumn::word("STATE"),
        TableColumn::word("TRUSTS NEW CA"),
        TableColumn::word("LAST CONTACT"),
    ];
    let rows = status.behind.iter().map(|it| {
        let last = it
            .last_seen
            .map_or_else(|| "never".to_owned(), fairlead_api::moment::timestamp);
        [
            it.cluster.to_string().into(),
            it.state.to_string().into(),
            if it.trusting { "yes" } else { "no" }.into(),
            last.into(),
        ]
    });
    output::table(&OutputFormat::Table, &columns, rows)
}

#[cfg(test)]
mod tests {
    use fairlead_api::{
        CaPin,
        resources::{CaBehind, CaInfo, ClusterState},
    };
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn status_lists_authorities_and_clusters_that_are_behind() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let authority = |byte, signs_hub: bool| CaInfo {
            pin: CaPin([byte; 32]),
            signs_identities: !signs_hub,
            signs_hub,
            not_before: at,
            not_after: at + time::Duration::days(3650),
            certificate: String::new(),
        };
        let mut status = CaStatus {
            phase: CaPhase::Rotating,
            authorities: vec![authority(1, true), authority(2, false)],
            unconfirmed_restore: None,
            retired: Vec::new(),
            enrolled: 3,
            trusting: 2,
            identified: 2,
            behind: vec![CaBehind {
                cluster: "c-away".parse().unwrap(),
                tenant: "t-acme".parse().unwrap(),
                state: ClusterState::Lost,
                trusting: false,
                last_seen: Some(at),
            }],
        };
        let shown = text(&status);
        assert!(
            shown.starts_with("phase:     rotating\nenrolled:  3\n"),
            "{shown}"
        );
        for part in [
            "c-away",
            "Lost",
            "1970-01-01T00:00:00Z",
            "1979-12-30",
            "identities",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        status.phase = CaPhase::Stable;
        status.behind.clear();
        let shown = text(&status);
        assert!(
            !shown.contains("BEHIND") && !shown.contains("enrolled"),
            "{shown}"
        );
    }
}
