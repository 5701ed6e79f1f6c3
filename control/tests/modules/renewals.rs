//! Renewal of identities: for the same cluster, by the last key, and for a time after the expiry.

use std::sync::Arc;

use fairlead_api::{Code, enroll::RENEW_PATH};
use fairlead_certs::{AgentIdentity, AgentKey, LEAF_LIFETIME, agent_identity};
use fairlead_seam::{AgentPeer, Recognition};
use http::Request;
use secrecy::ExposeSecret;
use serde_json::json;
use time::Duration;

use crate::{
    enroll::{csr, csr_naming, enrolled, invited_anew},
    rig::{Reply, Rig, admin, bootstrap, peer},
};

#[tokio::test]
async fn an_identity_is_renewed_for_itself_alone() {
    let rig = Rig::new().await;
    let join = rig.cluster("demo", "t-default").await;
    let (_, identity) = rig.enrolled(&join).await;
    rig.advance(Duration::hours(16));
    let renew = async |peer: &AgentPeer, csr: &str| {
        let body = json!({ "csr": csr, "agentVersion": "0.1.0" }).to_string();
        rig.agent(peer, Request::post(RENEW_PATH).body(body).unwrap())
            .await
    };
    let key = AgentKey::generate().unwrap();
    let reply = renew(&peer(&identity), &key.csr().unwrap()).await.good();
    let leaf = key
        .with_certificate(reply["certificate"].as_str().unwrap())
        .unwrap();
    let renewed = agent_identity(leaf.chain(), rig.control.trust_domain()).unwrap();
    assert_eq!(
        (&renewed.tenant, &renewed.cluster),
        (&identity.tenant, &identity.cluster)
    );
    assert_eq!(renewed.not_after - identity.not_after, Duration::hours(16));

    assert_eq!(
        renew(&AgentPeer::Anonymous, &csr()).await.code(),
        Code::EnrolOnly
    );
    assert_eq!(renew(&peer(&renewed), "x").await.code(), Code::BadCsr);
    let as_other = renew(&peer(&renewed), &csr_naming("c-other")).await;
    assert_eq!(as_other.code(), Code::ForeignName);
    rig.delete(&admin(), "/clusters/c-demo").await.good();
    assert_eq!(
        renew(&peer(&renewed), &csr()).await.code(),
        Code::ClusterDeleted
    );
    rig.cluster("demo", "t-default").await;
    assert_eq!(
        renew(&peer(&renewed), &csr()).await.code(),
        Code::IdentityRevoked
    );
}

#[tokio::test]
async fn renewals_of_a_cluster_are_limited() {
    let rig = Rig::new().await;
    let (own, identity) = enrolled(&rig).await;
    let renew = async |peer: &AgentPeer| {
        let body = json!({ "csr": own, "agentVersion": "0.1.0" }).to_string();
        rig.agent(peer, Request::post(RENEW_PATH).body(body).unwrap())
            .await
    };
    for _ in 0..60 {
        renew(&peer(&identity)).await.good();
    }
    let lapsed = AgentPeer::Lapsed(Arc::new(identity.clone()));
    for peer in [peer(&identity), lapsed] {
        assert_eq!(renew(&peer).await.code(), Code::TooManyRequests);
    }
    rig.advance(Duration::minutes(10));
    renew(&peer(&identity)).await.good();
}

#[tokio::test]
async fn old_key_is_void_after_an_enrolment_or_a_renewal_with_another() {
    let rig = Rig::new().await;
    let directory = rig.control.seam().directory;
    let mut revocations = directory.revocations();
    let (own, identity) = enrolled(&rig).await;
    let renew = async |identity: &AgentIdentity, key: &AgentKey| {
        let body = json!({ "csr": key.csr().unwrap(), "agentVersion": "0.1.0" });
        let request = Request::post(RENEW_PATH).body(body.to_string()).unwrap();
        rig.agent(&peer(identity), request).await
    };
    let identity_of = |reply: Reply, key: &AgentKey| {
        let chain = reply.good()["certificate"].as_str().unwrap().to_owned();
        let leaf = key.with_certificate(&chain).unwrap();
        agent_identity(leaf.chain(), rig.control.trust_domain()).unwrap()
    };
    // The same key again revokes nothing.
    let body = json!({ "csr": own, "agentVersion": "0.1.0" }).to_string();
    let request = Request::post(RENEW_PATH).body(body).unwrap();
    rig.agent(&peer(&identity), request).await.good();
    assert!(revocations.try_recv().is_err());
    directory.admit(&identity).await.unwrap();

    let rotated_key = AgentKey::generate().unwrap();
    let rotated = identity_of(renew(&identity, &rotated_key).await, &rotated_key);
    assert_eq!(revocations.try_recv().unwrap(), identity.cluster);
    directory.admit(&rotated).await.unwrap();
    let stolen = directory.admit(&identity).await.unwrap_err();
    assert_eq!(stolen.code(), Code::IdentityRevoked);
    // A thief of the old key cannot renew it for ever.
    let thief = renew(&identity, &AgentKey::generate().unwrap()).await;
    assert_eq!(thief.code(), Code::IdentityRevoked);

    let again = invited_anew(&rig).await;
    let enrolled_key = AgentKey::generate().unwrap();
    let own = enrolled_key.csr().unwrap();
    let reply = rig.enroll(&bootstrap(&again), &own).await;
    let newest = identity_of(reply, &enrolled_key);
    assert_eq!(revocations.try_recv().unwrap(), identity.cluster);
    directory.admit(&newest).await.unwrap();
    for old in [&identity, &rotated] {
        let refused = directory.admit(old).await.unwrap_err();
        assert_eq!(refused.code(), Code::IdentityRevoked);
    }
}

#[tokio::test]
async fn an_expired_identity_is_renewed_by_the_last_enrolled_key() {
    let rig = Rig::new().await;
    let (own, identity) = enrolled(&rig).await;
    let lapsed = AgentPeer::Lapsed(Arc::new(identity.clone()));
    let renew = async |peer: &AgentPeer, csr: &str| {
        let body = json!({ "csr": csr, "agentVersion": "0.1.0" }).to_string();
        rig.agent(peer, Request::post(RENEW_PATH).body(body).unwrap())
            .await
    };
    let late = async || {
        let shown = rig.get(&admin(), "/v1/audit?cluster=c-demo").await;
        shown.text.matches("lateRenewal").count()
    };

    rig.advance(LEAF_LIFETIME + Duration::hours(47));
    // A live session continues past the expiry of its first certificate.
    renew(&peer(&identity), &own).await.good();
    assert_eq!(late().await, 0, "that one was renewed in time");
    let other = renew(&lapsed, &csr()).await;
    assert_eq!(other.code(), Code::CertificateExpired);
    renew(&lapsed, &own).await.good();
    assert!(late().await > 0, "it is written down");
    rig.advance(Duration::hours(2));
    let too_late = renew(&lapsed, &own).await;
    assert_eq!(too_late.code(), Code::CertificateExpired);
    renew(&peer(&identity), &own).await.good();
}

/// Renews an expired identity with this request.
async fn renew_late(rig: &Rig, identity: &AgentIdentity, csr: &str) -> Reply {
    let body = json!({ "csr": csr, "agentVersion": "0.1.0" }).to_string();
    let request = Request::post(RENEW_PATH).body(body).unwrap();
    let lapsed = AgentPeer::Lapsed(Arc::new(identity.clone()));
    rig.agent(&lapsed, request).await
}

#[tokio::test]
async fn an_invitation_keeps_the_enrolled_agent_until_another_key_enrols() {
    let rig = Rig::new().await;
    let (own, identity) = enrolled(&rig).await;
    let again = invited_anew(&rig).await;
    rig.advance(LEAF_LIFETIME + Duration::hours(1));
    renew_late(&rig, &identity, &own).await.good();
    rig.advance(-LEAF_LIFETIME);
    let late = rig.enroll(&bootstrap(&again), &csr()).await;
    assert_eq!(late.code(), Code::BootstrapExpired);
    let again = invited_anew(&rig).await;
    rig.enroll(&bootstrap(&again), &csr()).await.good();
    rig.advance(LEAF_LIFETIME);
    let refused = renew_late(&rig, &identity, &own).await;
    assert_eq!(refused.code(), Code::CertificateExpired);
}

#[tokio::test]
async fn steward_and_an_agent_coexist() {
    let rig = Rig::new().await;
    let (own, identity) = enrolled(&rig).await;
    let again = invited_anew(&rig).await;
    let url = again.install_url.expose_secret();
    let path = url.strip_prefix("https://hub.example:8443").unwrap();
    rig.open(path).await.good();

    let directory = rig.control.seam().directory;
    let (uid, from) = ("uid-1".parse().unwrap(), [192, 0, 2, 7].into());
    let known = directory.recognise(&identity, Some(&uid), from).await;
    assert_eq!(known.unwrap(), Recognition::Known, "it binds the cluster");
    rig.advance(LEAF_LIFETIME + Duration::hours(1));
    renew_late(&rig, &identity, &own).await.good();
}
