//! Compile metadata like Lieutenant's operator exports it: one row per instance and package of a
//! cluster, with the source version as labels.

use std::collections::BTreeMap;

use fairlead_store::{
    millis,
    model::{Cluster, SourceVersion},
};

use crate::metrics::family::{Family, number, seconds};

/// Maximum number of instances and of packages per cluster, so that one cluster cannot exhaust the
/// limit of all.
const MAX_ROWS_PER_CLUSTER: usize = 200;
/// Maximum number of build info labels.
const MAX_BUILD_INFO_LABELS: usize = 8;

pub(super) struct CompileMetrics {
    last: Family,
    build: Family,
    global: Family,
    tenant: Family,
    packages: Family,
    instances: Family,
}

impl CompileMetrics {
    pub(super) fn new() -> Self {
        let family = Family::new;
        CompileMetrics {
            last: family(
                "syn_lieutenant_cluster_compile_meta_last_compile",
                "When a cluster's catalog was last compiled, in seconds since 1970.",
            ),
            build: family(
                "syn_lieutenant_cluster_compile_meta_commodore_build_info",
                "Version of Commodore at the last compilation, as labels; always 1.",
            ),
            global: family(
                "syn_lieutenant_cluster_compile_meta_global",
                "The global defaults that were compiled; always 1.",
            ),
            tenant: family(
                "syn_lieutenant_cluster_compile_meta_tenant",
                "The tenant's repository that was compiled; always 1.",
            ),
            packages: family(
                "syn_lieutenant_cluster_compile_meta_package",
                "Packages that were compiled; always 1.",
            ),
            instances: family(
                "syn_lieutenant_cluster_compile_meta_instance",
                "Instances of components that were compiled; always 1.",
            ),
        }
    }

    pub(super) fn add(&mut self, cluster: &Cluster) {
        let Some(meta) = &cluster.compile_meta else {
            return;
        };
        let cluster_labels = [
            ("cluster", cluster.id.as_str()),
            ("tenant", cluster.tenant.as_str()),
        ];
        if let Some(at) = meta.last_compile {
            self.last.add(cluster_labels, seconds(millis(at)));
        }
        let build = meta.commodore_build_info.iter().take(MAX_BUILD_INFO_LABELS);
        // Names that map to the same label are merged.
        let build: BTreeMap<String, &str> = build
            .map(|(name, text)| (label(name), text.as_str()))
            .collect();
        if !build.is_empty() {
            let build = build.iter().map(|(name, text)| (name.as_str(), *text));
            self.build.add(cluster_labels.into_iter().chain(build), 1.0);
        }
        for (family, source) in [
            (&mut self.global, &meta.global),
            (&mut self.tenant, &meta.tenant),
        ] {
            if let Some(source) = source {
                family.add(cluster_labels.into_iter().chain(of(source)), 1.0);
            }
        }
        for (name, source) in meta.packages.iter().take(MAX_ROWS_PER_CLUSTER) {
            let labels = cluster_labels.into_iter().chain([("name", name.as_str())]);
            self.packages.add(labels.chain(of(source)), 1.0);
        }
        for (name, instance) in meta.instances.iter().take(MAX_ROWS_PER_CLUSTER) {
            let component = instance.component.as_deref().unwrap_or_default();
            let labels = [("name", name.as_str()), ("component", component)];
            let labels = cluster_labels.into_iter().chain(labels);
            self.instances.add(labels.chain(of(&instance.source)), 1.0);
        }
        self.packages
            .leave_out(meta.packages.len().saturating_sub(MAX_ROWS_PER_CLUSTER));
        self.instances
            .leave_out(meta.instances.len().saturating_sub(MAX_ROWS_PER_CLUSTER));
    }

    pub(super) fn into_families(self) -> [Family; 6] {
        [
            self.last,
            self.build,
            self.global,
            self.tenant,
            self.packages,
            self.instances,
        ]
    }
}

fn of(source: &SourceVersion) -> [(&str, &str); 4] {
    [
        ("url", source.url.as_deref().unwrap_or_default()),
        ("path", source.path.as_deref().unwrap_or_default()),
        ("version", source.version.as_deref().unwrap_or_default()),
        ("gitSha", source.git_sha.as_deref().unwrap_or_default()),
    ]
}

/// A valid label name: other characters become `_`; reserved names get a prefix.
pub(super) fn label(name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => c,
        _ => '_',
    };
    let name: String = name.chars().take(64).map(plain).collect();
    match name.chars().next() {
        None => "_empty".to_owned(),
        Some('0'..='9' | '_') => format!("fact_{name}"),
        Some(_) if matches!(name.as_str(), "cluster" | "tenant") => format!("orig_{name}"),
        Some(_) => name,
    }
}

/// Number of rows beyond the limit.
pub(super) fn left_out(families: &[Family]) -> f64 {
    number(families.iter().map(Family::left_out).sum())
}
