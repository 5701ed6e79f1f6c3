//! Tests of `error`.

use super::*;

#[test]
fn each_request_error_has_its_code() {
    for (error, failure) in [
        (RequestError::HeadTooLarge, Failure::new(Code::HeadTooLarge)),
        (
            RequestError::Malformed("detail"),
            Failure::because(Code::BadRequest, "detail"),
        ),
        (
            RequestError::path("detail"),
            Failure::because(Code::BadPath, "detail"),
        ),
        (
            RequestError::WrongHost("detail"),
            Failure::because(Code::WrongHost, "detail"),
        ),
        (
            RequestError::NoSuchCluster,
            Failure::new(Code::NoSuchCluster),
        ),
        (
            RequestError::NoImpersonation,
            Failure::new(Code::NoImpersonation),
        ),
    ] {
        assert_eq!(Failure::from(error), failure);
    }
}
