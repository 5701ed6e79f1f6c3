use super::*;
use fairlead_api::{ClusterId, TenantId};

#[test]
fn a_generated_name_is_a_valid_id() {
    for _ in 0..200 {
        let name = generated().unwrap();
        assert!(ClusterId::from_name(&name).is_ok(), "{name}");
        assert!(TenantId::from_name(&name).is_ok(), "{name}");
        assert_eq!(name.split('-').count(), 3, "{name}");
    }
}

#[test]
fn a_callers_name_never_equals_one_of_kubernetes() {
    let long = "a".repeat(64);
    for bad in [
        "",
        "system:admin",
        "Alice",
        "a b",
        "a/b",
        "ä",
        "a:b",
        "a\n",
        &long,
    ] {
        assert!(caller_name(bad).is_err(), "{bad:?}");
    }
    for good in ["a", "alice@example.org", "ci-1_2.x", &"a".repeat(63)] {
        caller_name(good).unwrap();
    }
}

#[test]
fn display_names_contain_visible_text() {
    let long = "ä".repeat(101);
    let hidden = ["a\u{202e}b", "a\u{2066}b", "a\u{2028}b", "\u{feff}a"];
    for bad in ["", " a", "a ", "a\nb", "a\u{1b}[31m", &long]
        .into_iter()
        .chain(hidden)
    {
        assert!(display_name(Some(bad.to_owned()), "").is_err(), "{bad:?}");
    }
    assert_eq!(display_name(None, "c-demo").unwrap(), "c-demo");
    assert_eq!(
        display_name(Some("Zürich 1".into()), "").unwrap(),
        "Zürich 1"
    );
}
