//! `fairlead doctor --hub`: the data of a hub on this machine, its front as agents reach it, and the servers that it uses.

use std::time::Duration;

use clap::ArgMatches;
use fairlead_api::{
    Code, Failure, HubUrl,
    checkup::{CheckEvidence, CheckSection, CheckedStage, Checkup},
};
use fairlead_certs::{CertificateFacts, ca_pins, outer_client_with_evidence, session_client};
use fairlead_client::{Environment, files};
use fairlead_commands::block_on;
use fairlead_control::backup::HubData;
use fairlead_dialer::{
    CloseReason, DialError, DialStage, DialTrace, Dialer, Limits, PassedStage, ProxyRules,
};
use time::OffsetDateTime;

use super::services;
use crate::{
    hub::{audit, settings, settings::Settings},
    settings::{ProcessSettings, reader},
};

/// Stages of a connection to the front, in their order.
const STAGES: [&str; 8] = [
    "dns",
    "tcp",
    "proxy",
    "tls",
    "upgrade",
    "link",
    "inner-tls",
    "certificate",
];
/// A front certificate with a shorter rest is reported, unless that is more than a tenth of its lifetime.
const MIN_REST: time::Duration = time::Duration::days(7);

/// Checks the hub with these settings.
///
/// # Errors
/// `FL-4101` for mistakes in the settings.
pub(crate) fn check(matches: &ArgMatches, environment: &Environment) -> Result<Checkup, Failure> {
    let mut reader = reader("server", matches, environment);
    let _ = ProcessSettings::read(&mut reader, environment);
    let settings = settings::read_server(&mut reader, environment);
    reader.finish()?;
    let proxy = environment.proxy()?;
    let url = settings.public_url.clone().ok_or_else(|| {
        let missing = "public-url is missing: the address that agents and people use";
        Failure::because(Code::BadConfig, missing)
    })?;
    let data = HubData {
        data_dir: settings.data.clone(),
        store: settings.store.clone(),
    };
    block_on(Box::pin(async {
        let data = data.check_up(&audit::dir(&settings)).await;
        let front = check_front(&settings, &url, proxy).await;
        let mut sections = vec![data, front];
        sections.extend(services::check(&settings).await);
        Checkup { sections }
    }))
}

/// Dials the public URL as an agent without identity does.
async fn check_front(settings: &Settings, url: &HubUrl, proxy: ProxyRules) -> CheckSection {
    let mut section = CheckSection::new(url.to_string());
    section.way = Some(proxy.explain(url));
    let trust = || -> Result<_, Failure> {
        let pins = ca_pins(&files::read(&settings.data.join("ca.pem"))?)?;
        let outer = outer_client_with_evidence(None, Some(pins))?;
        Ok((outer, session_client(pins, None)?))
    };
    let ((outer, sent), inner) = match trust() {
        Ok(trust) => trust,
        Err(failure) => {
            section.add("certificate", Duration::ZERO, Err(failure));
            return section;
        }
    };
    let trace = DialTrace::default();
    let dialer = Dialer {
        outer,
        any_time: None,
        proxy,
        limits: Limits::default(),
        trace: trace.clone(),
    };
    let passed = |end: &'static str| stages_before(end, &trace.passed_stages());
    match dialer.dial(url, inner).await {
        Ok(dialed) => {
            dialed.session.close(CloseReason::Done);
            section.stages = passed("certificate");
            let facts = sent.facts();
            section.stages.extend(facts.map(|it| certificate(&it, url)));
        }
        Err(error) => {
            let stage = name(error.stage);
            section.stages = passed(stage);
            let evidence = evidence(&error, sent.facts());
            let took = trace.present_stage_time();
            let failed = CheckedStage::failed(stage, took, error.into(), evidence);
            section.stages.push(failed);
            let rest = STAGES.into_iter().skip(section.stages.len());
            section.stages.extend(rest.map(CheckedStage::not_tried));
        }
    }
    section
}

/// Stages of the dial before the stage `end`.
fn stages_before(end: &'static str, passed: &[PassedStage]) -> Vec<CheckedStage> {
    let before = STAGES.into_iter().take_while(|stage| *stage != end);
    before
        .map(
            |stage| match passed.iter().find(|it| name(it.stage) == stage) {
                Some(it) => CheckedStage::passed(stage, it.took, it.detail.clone()),
                None => CheckedStage::not_needed(stage, ""),
            },
        )
        .collect()
}

const fn name(stage: DialStage) -> &'static str {
    match stage {
        DialStage::Identity | DialStage::Protocol => "inner-tls",
        other => other.as_str(),
    }
}

fn evidence(error: &DialError, facts: Option<CertificateFacts>) -> Vec<CheckEvidence> {
    let answer = error.refusal.as_ref().map(|it| ("answer", it.to_string()));
    let certificate = facts.map(|it| ("certificate", it.to_string()));
    let found = answer.into_iter().chain(certificate);
    found
        .map(|(name, text)| CheckEvidence::new(name, text))
        .collect()
}

/// Checks the end of the front's certificate. Its names were checked by the dial.
fn certificate(facts: &CertificateFacts, url: &HubUrl) -> CheckedStage {
    let rest = facts.not_after - OffsetDateTime::now_utc();
    let needed = MIN_REST.min((facts.not_after - facts.not_before) / 10);
    if rest >= needed {
        return CheckedStage::passed("certificate", Duration::ZERO, facts.to_string());
    }
    let (host, hours) = (url.host(), rest.whole_hours());
    let cause = format!("the certificate for {host} ends in {hours} h");
    let failure = Failure::with_cause(Code::HubCertificateEnds, cause);
    let evidence = vec![CheckEvidence::new("certificate", facts.to_string())];
    CheckedStage::failed("certificate", Duration::ZERO, failure, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_near_its_end_is_reported() {
        let url = "https://hub.example".parse().unwrap();
        let now = OffsetDateTime::now_utc();
        for (lived, rest, result) in [
            (0, 25, "ok"),
            (20, 4, "ok"),
            (23, 1, "failed"),
            (2000, 200, "ok"),
            (2000, 100, "failed"),
            (10, -1, "failed"),
        ] {
            let facts = CertificateFacts {
                issuer: "CN=ca".to_owned(),
                names: vec!["hub.example".to_owned()],
                not_before: now - time::Duration::hours(lived),
                not_after: now + time::Duration::hours(rest),
            };
            let checked = certificate(&facts, &url);
            assert_eq!(checked.result.as_str(), result, "{lived} {rest}");
        }
    }
}
