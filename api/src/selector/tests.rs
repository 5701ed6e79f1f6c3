use super::*;

fn matches(selector: &str) -> bool {
    let value = |key: &str| match key {
        "cloud" => Some("aws"),
        "syn.tools/sla" => Some("gold, or so"),
        "empty" => Some(""),
        _ => None,
    };
    selector.parse::<Selector>().unwrap().matches(value)
}

#[test]
fn requirements_follow_kubernetes_syntax() {
    for yes in [
        "",
        "cloud",
        "cloud=aws",
        "cloud==aws",
        " cloud = aws , syn.tools/sla ",
        "cloud in (gcp, aws)",
        "cloud notin (gcp)",
        "region notin (x)",
        "region!=x",
        "!region",
        "empty=",
        "cloud in (aws),!region,cloud!=gcp",
    ] {
        assert!(matches(yes), "{yes}");
    }
    for no in [
        "region",
        "!cloud",
        "cloud=gcp",
        "cloud!=aws",
        "cloud in (gcp)",
        "cloud,region",
    ] {
        assert!(!matches(no), "{no}");
    }
}

#[test]
fn invalid_selectors_are_rejected() {
    let many = "a,".repeat(100) + "a";
    for bad in [
        ",", "a,", "a b", "!", "=x", "a in x", "a in (x", "a on (x)", "(a)", "a=(", "a!=x)",
        "a==((", "a in (()", "a,,b", &many,
    ] {
        assert!(bad.parse::<Selector>().is_err(), "{bad}");
    }
}
