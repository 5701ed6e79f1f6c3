//! Order of bundles: `dependsOn` must have no cycle.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::BundleId;

/// Finds a cycle in `dependsOn`: each bundle of the result depends on the next one, the last one on the first.
///
/// Unknown bundles have no dependencies.
#[must_use]
pub fn find_cycle(depends_on: &BTreeMap<BundleId, Vec<BundleId>>) -> Option<Vec<BundleId>> {
    let mut done: BTreeSet<&BundleId> = BTreeSet::new();
    for start in depends_on.keys() {
        // The path from the start, each bundle with its dependencies that are not visited yet.
        let mut path: Vec<(&BundleId, &[BundleId])> =
            vec![(start, dependencies(depends_on, start))];
        while let Some((bundle, rest)) = path.last_mut() {
            let Some((next, others)) = rest.split_first() else {
                done.insert(*bundle);
                path.pop();
                continue;
            };
            *rest = others;
            if let Some(at) = path.iter().position(|(known, _)| *known == next) {
                let cycle = path.iter().skip(at).map(|(bundle, _)| (*bundle).clone());
                return Some(cycle.collect());
            }
            if !done.contains(next) {
                path.push((next, dependencies(depends_on, next)));
            }
        }
    }
    None
}

fn dependencies<'a>(
    depends_on: &'a BTreeMap<BundleId, Vec<BundleId>>,
    bundle: &BundleId,
) -> &'a [BundleId] {
    depends_on.get(bundle).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(edges: &[(&str, &[&str])]) -> Option<Vec<String>> {
        let id = |name: &&str| BundleId::from_name(name).unwrap();
        let graph = edges
            .iter()
            .map(|(from, to)| (id(from), to.iter().map(id).collect()))
            .collect();
        let names = |it: &BundleId| it.as_str().trim_start_matches("b-").to_owned();
        find_cycle(&graph).map(|cycle| cycle.iter().map(names).collect())
    }

    #[test]
    fn cycles_are_found_in_order() {
        assert_eq!(cycle(&[("a", &["a"])]).unwrap(), ["a"]);
        assert_eq!(
            cycle(&[("a", &["b"]), ("b", &["c", "d"]), ("d", &["b"])]).unwrap(),
            ["b", "d"]
        );
        assert_eq!(
            cycle(&[("x", &["a"]), ("a", &["b"]), ("b", &["a"])]).unwrap(),
            ["a", "b"]
        );
    }

    #[test]
    fn diamonds_and_unknown_bundles_are_no_cycles() {
        let diamond: &[(&str, &[&str])] = &[
            ("a", &["b", "c"]),
            ("b", &["d"]),
            ("c", &["d", "unknown"]),
            ("d", &[]),
        ];
        assert_eq!(cycle(diamond), None);
        let wide: Vec<String> = (0..300).map(|number| format!("n{number}")).collect();
        let graph = wide.windows(2).map(|pair| {
            let id = |name: &String| BundleId::from_name(name).unwrap();
            (id(&pair[0]), vec![id(&pair[1])])
        });
        assert_eq!(find_cycle(&graph.collect()), None);
    }
}
