//! Patches of clusters, by people and by programs of a cluster.

use std::borrow::Cow;

use fairlead_routes::InvalidValue;
use fairlead_store::{
    View,
    model::{Cluster, FactSource},
};
use serde_json::{Map, Value};

use super::{check_key, sources::LastReport};
use crate::document::{cluster::ClusterSpec, fields::Fields, merge::cluster as merge_cluster};

/// A PATCH of a cluster as received.
pub(super) struct Patch {
    pub(super) fields: Map<String, Value>,
    pub(super) source: FactSource,
    pub(super) agent: LastReport,
}

impl Patch {
    pub(super) fn changes_nothing(
        &self,
        view: &View,
        cluster: &Cluster,
    ) -> Result<bool, InvalidValue> {
        let (fields, on) = self.weighed(cluster);
        let takes_over = matches!(on, Cow::Owned(_));
        let repeats = !takes_over && ClusterSpec::repeats(&fields, cluster);
        Ok(repeats || self.of(view, cluster)? == *cluster)
    }

    fn weighed<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> (Cow<'a, Map<String, Value>>, Cow<'a, Cluster>) {
        match self.source {
            FactSource::Steward => self.agent.accept(&self.fields, cluster),
            _ => (Cow::Borrowed(&self.fields), Cow::Borrowed(cluster)),
        }
    }

    /// The cluster after the patch.
    pub(super) fn of(&self, view: &View, cluster: &Cluster) -> Result<Cluster, InvalidValue> {
        let (fields, on) = self.weighed(cluster);
        let mut document = ClusterSpec::document(&on);
        merge_cluster(&mut document, fields.into_owned());
        let spec = ClusterSpec::read(&mut Fields::of(Value::Object(document))?)?;
        check_key(view, cluster, &spec)?;
        let mut cluster = on.into_owned();
        // The document contains the agent's key; if it is missing now, the patch removed it.
        if let (Some(repo), Some(spec)) = (&mut cluster.git_repo, &spec.git_repo) {
            spec.forget_key(repo);
        }
        spec.write(&mut cluster, self.source, self.agent.now);
        Ok(cluster)
    }
}
