//! Reasons not to correct the objects of a deployment. A person or the hub has decided each of them.

use crate::journal::Standstill;

/// Reason not to correct the objects of a deployment now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CorrectionStop {
    /// The hub does not name the bundle any more: its objects belong to nobody.
    NotTargeted,
    /// The hub suspends the deployment.
    Suspended,
    /// The site pauses delivery.
    SitePaused,
}

impl CorrectionStop {
    /// Words behind the sentence about a difference.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            CorrectionStop::NotTargeted => "the bundle is targeted no longer",
            CorrectionStop::Suspended => "the deployment is suspended",
            CorrectionStop::SitePaused => {
                "the site pauses delivery by its ConfigMap fairlead-delivery"
            }
        }
    }
}

impl From<Standstill> for CorrectionStop {
    fn from(order: Standstill) -> Self {
        match order {
            Standstill::NotTargeted => CorrectionStop::NotTargeted,
            Standstill::Suspended => CorrectionStop::Suspended,
        }
    }
}
