//! Decision of one observation. Pure.

use fairlead_api::{
    Code,
    resources::ClusterUpgradeState,
    upgrade::{DesiredUpgrade, UpgradeReport},
};
use time::OffsetDateTime;

use super::deployment::{AgentDeployment, NotedUpgrade};
use crate::config::UpgradeRule;

/// This process.
pub(super) struct AgentSelf {
    pub(super) version: String,
    /// Rule of the site operator.
    pub(super) rule: UpgradeRule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// No upgrade is desired, and none is open.
    Nothing,
    /// The desired upgrade has this result.
    Report(UpgradeReport),
    /// The desired upgrade is impossible.
    Refuse(String),
    /// The new pods have time left.
    Wait(UpgradeReport),
    /// Change the image.
    Start(NotedUpgrade),
    /// Note the result; the image stays.
    Finish(NotedUpgrade),
    /// Change the image back. Without a cause the pods have it.
    Return(NotedUpgrade),
}

pub(super) fn decide(
    deployment: &AgentDeployment,
    desired: Option<&DesiredUpgrade>,
    own: &AgentSelf,
    now: OffsetDateTime,
) -> Decision {
    let noted = deployment.noted.as_ref();
    let open = noted.filter(|it| it.state == ClusterUpgradeState::Upgrading);
    if let Some(open) = open {
        return of_open(deployment, open, own, now);
    }
    let Some(desired) = desired else {
        return Decision::Nothing;
    };
    if let Some(noted) = noted.filter(|it| it.id == desired.id) {
        return Decision::Report(noted.report());
    }
    if deployment.image == desired.image {
        return of_present_image(deployment, desired, own);
    }
    match refusal(deployment, desired, own.rule) {
        Some(cause) => Decision::Refuse(cause),
        None => Decision::Start(deployment.begin(desired, &own.version, now)),
    }
}

/// A former process of this Deployment may have begun it.
fn of_open(
    deployment: &AgentDeployment,
    open: &NotedUpgrade,
    own: &AgentSelf,
    now: OffsetDateTime,
) -> Decision {
    if deployment.image != open.image {
        let code = Code::AgentUpgradeRefused;
        let cause = format!(
            "{code}: somebody has set the image {} meanwhile",
            deployment.image
        );
        return Decision::Finish(open.ended(ClusterUpgradeState::Refused, Some(cause)));
    }
    if deployment.is_rolled_out && own.version == open.version {
        return Decision::Finish(open.ended(ClusterUpgradeState::Done, None));
    }
    // A process of the former pods may still run when they are gone from the status.
    if deployment.is_rolled_out && own.version != open.former_version {
        let code = Code::AgentRolledBack;
        let cause = format!("{code}: the image has the version {}", own.version);
        return Decision::Return(open.ended(ClusterUpgradeState::RolledBack, Some(cause)));
    }
    if now >= open.deadline {
        return Decision::Return(open.ended(ClusterUpgradeState::RolledBack, None));
    }
    Decision::Wait(open.report())
}

fn of_present_image(
    deployment: &AgentDeployment,
    desired: &DesiredUpgrade,
    own: &AgentSelf,
) -> Decision {
    let report = |state| UpgradeReport {
        id: desired.id.clone(),
        state,
        cause: None,
    };
    if !deployment.is_rolled_out {
        return Decision::Wait(report(ClusterUpgradeState::Upgrading));
    }
    match own.version == desired.version {
        true => Decision::Report(report(ClusterUpgradeState::Done)),
        false => Decision::Refuse(format!(
            "the present image {} has the version {}",
            desired.image, own.version
        )),
    }
}

/// Cause of a refusal, if there is any.
fn refusal(
    deployment: &AgentDeployment,
    desired: &DesiredUpgrade,
    rule: UpgradeRule,
) -> Option<String> {
    let (present, new) = (repository(&deployment.image), repository(&desired.image));
    match rule {
        UpgradeRule::Off => {
            return Some("the site operator allows no upgrades (--upgrades off)".to_owned());
        }
        UpgradeRule::SameRepository if present != new => {
            return Some(format!(
                "the image is of the repository {new}, and the site operator allows {present} only (--upgrades)"
            ));
        }
        UpgradeRule::SameRepository | UpgradeRule::Any => {}
    }
    if deployment.is_paused {
        return Some("the Deployment is paused".to_owned());
    }
    let cause =
        "the Deployment ends pods before their replacements are ready: its maxUnavailable is not 0";
    (!deployment.keeps_former_pods).then(|| cause.to_owned())
}

/// Image without tag and digest.
fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    // A colon before the last slash belongs to the port of a registry.
    let tag = name.rfind(':').filter(|at| Some(*at) > name.rfind('/'));
    tag.and_then(|at| name.get(..at)).unwrap_or(name)
}

#[cfg(test)]
mod tests;
