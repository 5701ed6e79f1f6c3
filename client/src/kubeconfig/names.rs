//! Names of a kubeconfig's entries. Each name ends with the hub's host and port, so that files of several hubs can be joined
//! and no token is sent to another hub. A name does not depend on the selection of clusters.

use std::{collections::BTreeMap, fmt::Write, str::FromStr};

use fairlead_api::{ClusterId, resources::Cluster};

use super::error::AmbiguousContext;

/// Template of context names, like `{name}@{hub}`.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextName(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Name,
    Id,
    Tenant,
    Hub,
}

impl ContextName {
    /// Default template.
    pub const DEFAULT: &str = "{name}@{hub}";
}

impl Default for ContextName {
    fn default() -> Self {
        ContextName(vec![Part::Name, Part::Text("@".to_owned()), Part::Hub])
    }
}

impl FromStr for ContextName {
    type Err = String;
    fn from_str(template: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, behind)) = rest.split_once('{') {
            parts.push(Part::Text(text.to_owned()));
            let (word, after) = behind.split_once('}').ok_or("a { has no }")?;
            parts.push(match word {
                "name" => Part::Name,
                "id" => Part::Id,
                "tenant" => Part::Tenant,
                "hub" => Part::Hub,
                _ => {
                    return Err(format!(
                        "{{{word}}}: expected {{name}}, {{id}}, {{tenant}} or {{hub}}"
                    ));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        match template.is_empty() || template.chars().any(char::is_control) {
            true => Err("it is empty, or has control characters".to_owned()),
            false => Ok(ContextName(parts)),
        }
    }
}

/// Names of one hub's entries.
pub(super) struct Names {
    hub: String,
    labels: BTreeMap<ClusterId, String>,
}

impl Names {
    /// `hub` is the host, with the port if it is not 443; `visible` has all clusters that are visible to the caller.
    pub(super) fn new(hub: String, visible: &[Cluster]) -> Self {
        let mut count = BTreeMap::<&str, usize>::new();
        for cluster in visible {
            *count.entry(&cluster.display_name).or_default() += 1;
        }
        let label = |cluster: &Cluster| {
            let name = &cluster.display_name;
            // A name in the form of an id could equal the id of another cluster.
            let is_id = name.parse::<ClusterId>().is_ok();
            let is_plain = !name.is_empty() && !name.chars().any(char::is_control);
            let is_own = is_plain && !is_id && count.get(name.as_str()) == Some(&1);
            match is_own {
                true => name.clone(),
                false => cluster.id.to_string(),
            }
        };
        let labels = visible.iter().map(|it| (it.id.clone(), label(it)));
        Names {
            labels: labels.collect(),
            hub,
        }
    }

    pub(super) fn hub(&self) -> &str {
        &self.hub
    }

    pub(super) fn user(&self) -> String {
        format!("fairlead@{}", self.hub)
    }

    pub(super) fn cluster(&self, id: &ClusterId) -> String {
        format!("{id}@{}", self.hub)
    }

    /// Context names of the `chosen` clusters.
    ///
    /// # Errors
    /// [`AmbiguousContext`] if the template yields the same name for two clusters.
    pub(super) fn contexts(
        &self,
        template: &ContextName,
        chosen: &[&Cluster],
    ) -> Result<Vec<String>, AmbiguousContext> {
        let mut known = BTreeMap::new();
        let mut names = Vec::with_capacity(chosen.len());
        for cluster in chosen {
            let name = self.context(template, cluster);
            if let Some(other) = known.insert(name.clone(), &cluster.id) {
                let detail = format!("{other} and {} would both be {name:?}", cluster.id);
                return Err(AmbiguousContext(detail));
            }
            names.push(name);
        }
        Ok(names)
    }

    fn context(&self, template: &ContextName, cluster: &Cluster) -> String {
        let label = self.labels.get(&cluster.id);
        let label = label.map_or(cluster.id.as_str(), String::as_str);
        let mut name = String::new();
        for part in &template.0 {
            // Writing into a string cannot fail.
            let _ = match part {
                Part::Text(text) => write!(name, "{text}"),
                Part::Name => write!(name, "{label}"),
                Part::Id => write!(name, "{}", cluster.id),
                Part::Tenant => write!(name, "{}", cluster.tenant),
                Part::Hub => write!(name, "{}", self.hub),
            };
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::tests::cluster;
    use super::*;

    fn contexts(hub: &str, clusters: &[Cluster]) -> Vec<String> {
        let template = ContextName::DEFAULT.parse().unwrap();
        let names = Names::new(hub.to_owned(), clusters);
        let chosen: Vec<_> = clusters.iter().collect();
        names.contexts(&template, &chosen).unwrap()
    }

    #[test]
    fn id_replaces_ambiguous_names() {
        let clusters = [
            cluster("c-one", "a"),
            cluster("c-two", "a"),
            cluster("c-three", "c-one"),
            cluster("c-four", "demo"),
        ];
        assert_eq!(
            contexts("hub:8443", &clusters),
            [
                "c-one@hub:8443",
                "c-two@hub:8443",
                "c-three@hub:8443",
                "demo@hub:8443"
            ]
        );
    }

    #[test]
    fn template_with_colliding_names_is_refused() {
        let clusters = [cluster("c-one", "a"), cluster("c-two", "b")];
        let names = Names::new("hub".to_owned(), &clusters);
        let named = |template: &str, chosen: &[&Cluster]| {
            names.contexts(&template.parse().unwrap(), chosen)
        };
        let [one, two] = &clusters;
        assert_eq!(named("demo", &[one]).unwrap(), ["demo"]);
        assert_eq!(
            named("{tenant}/{name} {id}", &[two]).unwrap(),
            ["t-default/b c-two"]
        );
        let refused = named("{tenant}", &[one, two]).unwrap_err();
        assert!(refused.to_string().contains("would both be"), "{refused}");
        for bad in ["", "{nam}", "{name", "a\nb"] {
            assert!(bad.parse::<ContextName>().is_err(), "{bad:?}");
        }
    }

    fn any_hub() -> impl Strategy<Value = String> {
        "[a-c]{1,2}(:[1-3])?"
    }

    /// Clusters with few distinct letters, so that names and ids collide often.
    fn any_clusters() -> impl Strategy<Value = Vec<Cluster>> {
        let ids = proptest::collection::btree_set("c-[a-b]{1,2}", 0..6);
        let names = proptest::collection::vec("(c-)?[a-b@]{1,2}(@[a-b](:[1-3])?)?", 6);
        (ids, names).prop_map(|(ids, names)| {
            let both = ids.iter().zip(&names);
            both.map(|(id, name)| cluster(id, name)).collect()
        })
    }

    proptest! {
        #[test]
        fn names_never_collide_within_a_hub_or_between_hubs(
            hubs in (any_hub(), any_hub()),
            clusters in (any_clusters(), any_clusters()),
        ) {
            prop_assume!(hubs.0 != hubs.1);
            let all = [contexts(&hubs.0, &clusters.0), contexts(&hubs.1, &clusters.1)].concat();
            let unique: BTreeSet<_> = all.iter().collect();
            prop_assert_eq!(unique.len(), all.len(), "{:?}", all);
            let (a, b) = (Names::new(hubs.0, &clusters.0), Names::new(hubs.1, &clusters.1));
            prop_assert_ne!(a.user(), b.user());
            let entries = |names: &Names, of: &[Cluster]| of.iter().map(|it| names.cluster(&it.id)).collect::<BTreeSet<_>>();
            let (a, b) = (entries(&a, &clusters.0), entries(&b, &clusters.1));
            prop_assert!(a.is_disjoint(&b));
        }

        #[test]
        fn one_cluster_has_one_name_in_every_file(clusters in any_clusters()) {
            let template = ContextName::DEFAULT.parse().unwrap();
            let whole = contexts("hub", &clusters);
            let names = Names::new("hub".to_owned(), &clusters);
            for (cluster, name) in clusters.iter().zip(whole) {
                prop_assert_eq!(names.contexts(&template, &[cluster]).unwrap(), [name]);
            }
        }
    }
}
