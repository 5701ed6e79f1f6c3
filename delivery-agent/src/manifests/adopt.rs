//! Adoption: fields of former managers move into our entry, so that fields left out later do not stay for ever.

use fairlead_api::Code;
use fairlead_manifests::{
    Prepared,
    drift::{FieldOwner, is_adoptable, take_over as take_over_patch},
};

use crate::{
    engine::{FailureClass, RunContext, RunFailure},
    kube::KubeError,
};

/// Attempts while others change the object.
const MAX_ATTEMPTS: usize = 3;

/// Takes a live object over.
pub(super) async fn take_over(
    run: &RunContext,
    object: &Prepared,
    path: &str,
) -> Result<(), RunFailure> {
    let owner = FieldOwner::of_bundle(run.bundle().as_str());
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let live = run.kube.get(path).await;
        let live = live.map_err(|error| RunFailure::of_kube(&error))?;
        let patch = live.and_then(|live| {
            take_over_patch(&live, &owner, &|entry| {
                !owner.has(entry) && is_adoptable(entry)
            })
        });
        let Some(patch) = patch else {
            return Ok(());
        };
        match run.kube.json_patch(path, &patch).await {
            Ok(_) => {
                run.log.line(&format!("adopted {}", object.key));
                return Ok(());
            }
            Err(error @ KubeError::Status { status: 409, .. }) => last = Some(error),
            Err(error) if error.is_unavailable() => return Err(RunFailure::of_kube(&error)),
            Err(error) => {
                last = Some(error);
                break;
            }
        }
    }
    let cause = last.map(|error| error.to_string()).unwrap_or_default();
    let sentence = format!("{} cannot be adopted: {cause}", object.key);
    Err(RunFailure::new(
        FailureClass::Retry,
        Code::ForeignObject,
        sentence,
    ))
}
