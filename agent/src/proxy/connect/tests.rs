//! Tests of targets that are connected.

use super::*;
use crate::connect_rules::tests::parsed;

#[tokio::test]
async fn target_in_another_spelling_is_refused_before_anything_else() {
    let own = parsed(&["0.0.0.0/0:*", "[::]/0:*", "db:*", "*.db:*", "127.0.0.1:80"]);
    let rules = ConnectRules::new(&own, None);
    for authority in [
        "DB:80",
        "db.:80",
        "user@db:80",
        "db:080",
        "db:0",
        "127.1:80",
        "0x7f.0.0.1:80",
        "2130706433:80",
        "[0::1]:80",
        "[::ffff:127.0.0.1]:80",
        "db%2e:80",
        "a..db:80",
    ] {
        let uri = Uri::builder().authority(authority).build();
        let Ok(uri) = uri else { continue };
        let failure = open(&rules, &uri).await.unwrap_err();
        assert_eq!(failure.code, Code::TargetUnreadable, "{authority}");
    }
    let failure = open(&rules, &Uri::from_static("/db:80")).await.unwrap_err();
    assert_eq!(failure.code, Code::TargetUnreadable);
}

#[tokio::test]
async fn own_address_of_the_machine_is_reached_by_its_exact_name_only() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let uri: Uri = address.to_string().parse().unwrap();
    let (exact, wide) = (parsed(&[&address.to_string()]), parsed(&["0.0.0.0/0:*"]));
    open(&ConnectRules::new(&exact, None), &uri).await.unwrap();
    let refused = open(&ConnectRules::new(&wide, None), &uri)
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::TargetReserved);
    // As for another address of this machine, which the list of reserved ones does not have.
    let socket = TcpStream::connect(address).await.unwrap();
    let target = address.to_string().parse().unwrap();
    let refused = checked(&ConnectRules::new(&wide, None), &target, socket, address).unwrap_err();
    assert_eq!(refused.code, Code::TargetReserved);
}
