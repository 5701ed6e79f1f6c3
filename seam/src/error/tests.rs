//! Tests of `error`.

use super::*;

#[test]
fn each_authentication_error_has_its_code() {
    let detail = || "detail".to_owned();
    let limit = AuthenticateError::TooManyRequests {
        caller: "ann".to_owned(),
        limit: 2,
    };
    for (error, failure) in [
        (AuthenticateError::NoToken, Failure::new(Code::NoToken)),
        (
            AuthenticateError::BadToken(None),
            Failure::new(Code::BadToken),
        ),
        (
            AuthenticateError::BadToken(Some(detail())),
            Failure::because(Code::BadToken, "detail"),
        ),
        (AuthenticateError::TooLong, Failure::new(Code::TokenTooLong)),
        (AuthenticateError::Expired, Failure::new(Code::TokenExpired)),
        (
            TooManyWrongTokens.into(),
            Failure::new(Code::TooManyWrongTokens),
        ),
        (
            limit,
            Failure::because(Code::TooManyRequests, "ann has 2 of them"),
        ),
        (
            AuthenticateError::IssuerDown(detail()),
            Failure::because(Code::IssuerDown, "detail"),
        ),
        (
            AuthenticateError::NoRole(detail()),
            Failure::because(Code::NoRole, "detail"),
        ),
        (
            AuthenticateError::Internal(detail()),
            Failure::because(Code::Internal, "detail"),
        ),
    ] {
        assert_eq!(Failure::from(error), failure);
    }
}

#[test]
fn each_authorization_and_directory_error_has_its_code() {
    let denied = AuthorizeError::NotAllowed {
        caller: "ann".to_owned(),
        role: Role::Compile,
    };
    let store = Failure::new(Code::StoreAway);
    let table: [(Failure, Code); 6] = [
        (AuthorizeError::NoSuchCluster.into(), Code::NoSuchCluster),
        (denied.into(), Code::NotAllowed),
        (DirectoryError::ClusterDeleted.into(), Code::ClusterDeleted),
        (
            DirectoryError::Revoked("detail").into(),
            Code::IdentityRevoked,
        ),
        (
            DirectoryError::Cloned("detail".to_owned()).into(),
            Code::IdentityCloned,
        ),
        (DirectoryError::Unavailable(store).into(), Code::StoreAway),
    ];
    for (failure, code) in table {
        assert_eq!(failure.code, code);
    }
}
