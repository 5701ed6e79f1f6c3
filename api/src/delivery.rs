//! Delivery of manifests and Helm charts: records of people, desired state of clusters, reports of agents.

mod bundle;
mod bundle_status;
mod deployment;
mod group;
mod plan;
mod rollout;
mod run;
mod source;
mod spec;
mod wire;

pub use bundle::{
    Bundle, BundleFields, BundleKind, Chart, ConflictPolicy, CrdPolicy, DriftPolicy, HelmFailure,
    HelmOptions, IgnoreRule, ObjectTarget, Patch, RolloutRules, SecretInput, Share, ShareError,
    Target, UntargetPolicy, Wave,
};
pub use bundle_status::{
    BundleGeneration, BundleStatus, PutBundle, RemovedDeployment, Rollback, UploadedArtifact,
};
pub use deployment::{
    Deployment, DeploymentKey, DeploymentReport, DeploymentState, DeploymentStatusUpdate,
    DriftedObject, Generations, ObjectCounts,
};
pub use group::{Group, GroupStatus, PutGroup};
pub use plan::{BlockedCluster, Plan, PlannedTarget};
pub use rollout::{Rollout, RolloutState, WaveState, WaveStatus};
pub use run::{
    AttemptOutcome, CancelMode, CreateRun, DiffRequest, FieldDiff, ObjectChange, ObjectDiff, Run,
    RunDiff, RunKind, RunOrigin, RunState,
};
pub use source::{GitSource, PutSource, Source, SourceArtifact};
pub use spec::{ArtifactId, DesiredBundle, DesiredState, DigestError, PlanHash, Spec, SpecId};
pub use wire::{
    ARTIFACTS_PATH, ATTEMPT_HEADER, AgentRun, AgentRunReceipt, CLAIM_PATH, ClaimedRun,
    DELIVERY_PATH, DESIRED_DELIVERY_HEADER, DeploymentReceipt, DeploymentReports,
    LOG_OFFSET_HEADER, MAX_DESIRED_STATE_BYTES, MAX_LOG_PIECE_BYTES, MAX_OUTCOME_BYTES,
    MAX_REPORTS_BYTES, MAX_SPEC_BYTES, REPORTS_PATH, RUNS_PATH, RunHeartbeat, RunLeaseStatus,
    RunOutcome, SPECS_PATH, run_path,
};
