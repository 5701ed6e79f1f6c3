use super::*;

#[test]
fn each_registry_error_has_its_code_and_text() {
    let text = || "text".to_owned();
    let because = |code| Failure::because(code, "text");
    let (now, since) = (Revision(3), Revision(9));
    for (error, failure) in [
        (
            RegistryError::NotAllowed {
                detail: text(),
                next: "Ask.".to_owned(),
            },
            because(Code::NotAllowed).next("Ask."),
        ),
        (
            RegistryError::NoSuchCluster,
            Failure::new(Code::NoSuchCluster),
        ),
        (RegistryError::NoSuchTenant, Failure::new(Code::NotFound)),
        (
            RegistryError::UnknownTenant,
            Failure::with_cause(Code::NotFound, "tenant: there is no such tenant"),
        ),
        (
            RegistryError::UnknownScope,
            Failure::because(Code::NotFound, "no such tenant or cluster"),
        ),
        (
            RegistryError::NoSuchToken(text()),
            Failure::because(Code::NotFound, "no token has the id \"text\""),
        ),
        (RegistryError::Conflict, Failure::new(Code::Conflict)),
        (RegistryError::Overruled(text()), because(Code::Conflict)),
        (
            RegistryError::Outdated,
            Failure::new(Code::ChangedMeanwhile),
        ),
        (RegistryError::InUse("text"), because(Code::InUse)),
        (
            RegistryError::Compacted(now),
            Failure::because(Code::Compacted, "the oldest retained revision is 3"),
        ),
        (StoreError::InUse.into(), Failure::new(Code::InUse)),
        (RandomError.into(), Failure::from(RandomError)),
    ] {
        assert_eq!(error.code(), failure.code);
        assert_eq!(Failure::from(error), failure);
    }
    let used = Failure::from(RegistryError::NameUsed(text()));
    assert_eq!((used.code, used.cause.as_str()), (Code::Conflict, "text"));
    let ahead = Failure::from(RegistryError::NotReached { now, since });
    assert_eq!(ahead.code, Code::Compacted);
    assert!(ahead.cause.starts_with("since: "), "{ahead}");
    let protected = Failure::from(RegistryError::Protected("c-one".parse().unwrap()));
    assert_eq!(protected, Failure::because(Code::Protected, "c-one"));
}
