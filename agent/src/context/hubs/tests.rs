use super::*;

const ONE: LinkIndex = LinkIndex::FIRST;

fn url(name: &str) -> HubUrl {
    format!("https://{name}.example").parse().unwrap()
}

fn list(names: &[&str]) -> HubList {
    names.iter().map(|name| url(name)).collect()
}

fn hubs(links: Option<LinkCount>, configured: usize) -> KnownHubs {
    KnownHubs::new(links, (configured, true), Instance::from_bytes([0; 16]))
}

fn session(dialed: &str, named: Option<&str>) -> Option<SessionHub> {
    Some(SessionHub {
        dialed: url(dialed),
        named: named.map(url),
    })
}

fn second() -> LinkIndex {
    LinkCount::TWO.all().last().unwrap()
}

#[test]
fn two_links_are_the_default_with_several_hubs() {
    let now = Instant::now();
    for (links, configured, listed, expected) in [
        (None, 0, &[][..], 1),
        (None, 1, &["a"], 1),
        (None, 2, &[], 2),
        (None, 0, &["a", "b", "c"], 2),
        (Some(LinkCount::ONE), 2, &["a", "b"], 1),
        (Some(LinkCount::TWO), 0, &[], 2),
    ] {
        let hubs = hubs(links, configured);
        hubs.report(&list(listed), now);
        assert_eq!(
            hubs.desired_links(),
            expected,
            "{links:?} {configured} {listed:?}"
        );
    }
}

#[test]
fn address_outlives_the_last_list_with_it_for_some_time() {
    let (hubs, start) = (hubs(None, 0), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    hubs.report(&list(&["a", "b"]), at(0));
    hubs.report(&list(&["a"]), at(59));
    assert_eq!(*hubs.learned(), [url("a"), url("b")]);
    hubs.report(&list(&["a"]), at(60));
    assert_eq!(*hubs.learned(), [url("a")]);
    hubs.report(&list(&[]), at(119));
    assert_eq!(*hubs.learned(), [url("a")]);
    hubs.report(&list(&[]), at(120));
    assert!(hubs.learned().is_empty());
}

#[test]
fn stored_address_begins_its_time_with_the_first_list() {
    let (hubs, start) = (hubs(None, 0), Instant::now());
    hubs.set_learned(&[url("old")]);
    hubs.report(&list(&["new"]), start);
    assert_eq!(*hubs.learned(), [url("new"), url("old")]);
    hubs.report(&list(&["new"]), start + UNLISTED_RETENTION);
    assert_eq!(*hubs.learned(), [url("new")]);
}

#[test]
fn site_operator_turns_learning_off() {
    let hubs = KnownHubs::new(None, (1, false), Instance::from_bytes([0; 16]));
    hubs.report(&list(&["a", "b"]), Instant::now());
    hubs.set_learned(&[url("a")]);
    assert!(hubs.learned().is_empty());
    assert_eq!(hubs.desired_links(), 1);
}

#[test]
fn agents_begin_with_different_hubs() {
    let names = ["a", "b", "c"];
    let firsts: BTreeSet<String> = (0..30)
        .map(|byte| {
            let hubs = KnownHubs::new(None, (0, true), Instance::from_bytes([byte; 16]));
            hubs.report(&list(&names), Instant::now());
            hubs.learned()[0].to_string()
        })
        .collect();
    assert_eq!(firsts.len(), names.len());
}

#[tokio::test]
async fn links_start_and_end_with_the_list() {
    let (hubs, start) = (hubs(None, 0), Instant::now());
    assert_eq!(hubs.start_missing(), [ONE]);
    assert!(hubs.start_missing().is_empty());
    hubs.report(&list(&["a", "b"]), start);
    assert_eq!(hubs.start_missing(), [second()]);
    hubs.report(&list(&["b"]), start + UNLISTED_RETENTION);
    // Either link may end, the one without a session, and the other stays.
    hubs.until_superfluous(ONE).await;
    let mut other = std::pin::pin!(hubs.until_superfluous(second()));
    assert!(futures_util::poll!(&mut other).is_pending());
    hubs.report(&list(&["a", "b"]), start + UNLISTED_RETENTION * 2);
    assert_eq!(hubs.start_missing(), [ONE]);
}

#[test]
fn hub_of_another_link_is_in_use_under_each_of_its_addresses() {
    let hubs = hubs(None, 0);
    hubs.set_session(ONE, session("balancer", Some("a")));
    for (name, used) in [("balancer", true), ("a", true), ("b", false)] {
        assert_eq!(
            hubs.is_used_by_another(second(), &url(name)),
            used,
            "{name}"
        );
        assert!(!hubs.is_used_by_another(ONE, &url(name)));
    }
    hubs.dials(second(), Some(url("b")));
    assert!(hubs.is_used_by_another(ONE, &url("b")));
    assert!(hubs.another_has_session(second()) && !hubs.another_has_session(ONE));
    let ended = session("balancer", Some("a")).unwrap();
    hubs.end_session(ONE, &ended);
    assert!(!hubs.is_used_by_another(second(), &url("a")));
}

#[test]
fn session_is_misplaced_if_its_hub_left_or_serves_a_lower_link_and_another_is_free() {
    let (hubs, start) = (hubs(None, 0), Instant::now());
    hubs.report(&list(&["a", "b"]), start);
    hubs.set_session(ONE, session("a", Some("a")));
    hubs.set_session(second(), session("b", Some("b")));
    assert!(!hubs.is_misplaced(ONE) && !hubs.is_misplaced(second()));
    // The first hub leaves, and no other one is free.
    hubs.report(&list(&["b"]), start + UNLISTED_RETENTION);
    assert!(!hubs.is_misplaced(ONE));
    hubs.report(&list(&["b", "c"]), start + UNLISTED_RETENTION);
    assert!(hubs.is_misplaced(ONE) && !hubs.is_misplaced(second()));
    // Both links are at one hub; the second one moves.
    hubs.set_session(ONE, session("balancer", Some("b")));
    assert!(!hubs.is_misplaced(ONE) && hubs.is_misplaced(second()));
    // A hub that does not list itself.
    hubs.set_session(second(), session("x", None));
    assert!(!hubs.is_misplaced(second()));
}

#[test]
fn hub_that_lists_ever_other_addresses_takes_bounded_memory() {
    let (hubs, now) = (hubs(None, 0), Instant::now());
    for batch in 0..100 {
        let names: Vec<String> = (0..10).map(|n| format!("n{batch}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        hubs.report(&list(&names), now);
    }
    assert_eq!(hubs.learned().len(), MAX_LEARNED_HUBS);
    assert_eq!(hubs.inner().listed.len(), MAX_LEARNED_HUBS);
    assert!(hubs.learned().contains(&url("n99-0")));
}
