//! Versions ordered by semver, tolerant of Kubernetes vendors' suffixes: only `alpha`, `beta` and
//! `rc` sort before a release; `-eks-1` and `+k3s1` equal it.

use std::cmp::Ordering;

/// `v1.30.4-rc.1`, with up to three numbers as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LooseVersion {
    numbers: Vec<u64>,
    /// PreReleaseStage and number of a pre-release.
    before: Option<(PreReleaseStage, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PreReleaseStage {
    Alpha,
    Beta,
    Rc,
}

impl LooseVersion {
    /// `None` if the text does not begin with a number, after an optional `v`.
    pub(super) fn read(text: &str) -> Option<LooseVersion> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (numbers, behind) = text.split_at_checked(end.unwrap_or(text.len()))?;
        let numbers: Option<Vec<u64>> = numbers
            .trim_end_matches('.')
            .splitn(4, '.')
            .take(3)
            .map(|number| number.parse().ok())
            .collect();
        Some(LooseVersion {
            numbers: numbers?,
            before: before(behind),
        })
    }

    /// Compares at the precision of `wanted`: `1.31.4` equals `1.31`.
    pub(super) fn compare(&self, wanted: &LooseVersion) -> Ordering {
        let depth = wanted.numbers.len();
        let own = self.numbers.iter().copied().chain(std::iter::repeat(0));
        let numbers = own.take(depth).cmp(wanted.numbers.iter().copied());
        match (numbers, depth) {
            (Ordering::Equal, 3) => rank(self.before).cmp(&rank(wanted.before)),
            (numbers, _) => numbers,
        }
    }
}

/// A release sorts after its pre-releases.
fn rank(before: Option<(PreReleaseStage, u64)>) -> (bool, Option<(PreReleaseStage, u64)>) {
    (before.is_none(), before)
}

fn before(text: &str) -> Option<(PreReleaseStage, u64)> {
    let text = text.strip_prefix('-')?;
    let stages = [
        ("alpha", PreReleaseStage::Alpha),
        ("beta", PreReleaseStage::Beta),
        ("rc", PreReleaseStage::Rc),
    ];
    let (name, stage) = stages
        .into_iter()
        .find(|(name, _)| text.starts_with(name))?;
    let behind = text.get(name.len()..)?.trim_start_matches(['.', '-']);
    let end = behind.find(|c: char| !c.is_ascii_digit());
    let number = behind.get(..end.unwrap_or(behind.len()))?;
    Some((stage, number.parse().unwrap_or(0)))
}

/// LooseVersion suffix of a chart label, like `k8s-sidecar-1.2.3-rc.1`.
///
/// The first dash followed by a semantic version counts, as charts require one; else the last dash
/// before a digit. Empty without either.
pub(super) fn of_chart(chart: &str) -> &str {
    let behind = || {
        let dashes = chart.match_indices('-');
        dashes.filter_map(|(at, dash)| chart.get(at + dash.len()..))
    };
    let numbered = |text: &&str| {
        let number = text.strip_prefix('v').unwrap_or(text);
        number.starts_with(|c: char| c.is_ascii_digit())
    };
    let whole = behind().find(|text| is_semantic(text));
    whole
        .or_else(|| behind().rfind(numbered))
        .unwrap_or_default()
}

/// Three numbers, optional pre-release and build. Labels use `_` for `+`.
fn is_semantic(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = match text.split_once(['+', '_']) {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (numbers, pre) = match text.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (text, None),
    };
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit());
    let is_word =
        |it: &str| !it.is_empty() && (it.bytes()).all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let words = |text: Option<&str>| text.is_none_or(|text| text.split('.').all(is_word));
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && words(pre)
        && words(build)
}

/// Relation between a value and the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    /// Longer operators before their prefixes.
    pub(super) const ALL: [(&str, Comparison); 7] = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("!=", Comparison::NotEqual),
        ("==", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
    ];

    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Greater => order.is_gt(),
        }
    }
}

/// Conditions like `>=1.29 <1.31`, combined by AND.
#[derive(Debug, Clone)]
pub(super) struct Versions(Vec<(Comparison, LooseVersion)>);

impl Versions {
    /// `None` unless it consists of comparisons with versions, separated by spaces or commas.
    pub(super) fn read(text: &str) -> Option<Versions> {
        let parts = text.split([' ', ',']).filter(|part| !part.is_empty());
        let wanted: Option<Vec<_>> = parts
            .map(|part| {
                let all = Comparison::ALL.into_iter();
                let found = all
                    .filter_map(|(sign, it)| Some((it, part.strip_prefix(sign)?)))
                    .next();
                let (comparison, version) = found.unwrap_or((Comparison::Equal, part));
                Some((comparison, LooseVersion::read(version)?))
            })
            .collect();
        wanted.filter(|wanted| !wanted.is_empty()).map(Versions)
    }

    pub(super) fn contain(&self, version: &LooseVersion) -> bool {
        let mut all = self.0.iter();
        all.all(|(comparison, wanted)| comparison.holds(version.compare(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_versions_equal_their_release() {
        for (version, wanted, holds) in [
            ("v1.30.4", "<1.31", true),
            ("v1.31.0", "<1.31", false),
            ("v1.31.0-rc.1", "<1.31.0", true),
            ("v1.31.0-rc.1", "<1.31", false),
            ("v1.31.0-alpha.2", "<1.31.0-beta.1", true),
            ("v1.31.0-rc.10", ">1.31.0-rc.9", true),
            ("v1.30.4-eks-a737599", "=1.30.4", true),
            ("v1.30.5-gke.1014001", ">1.30.4", true),
            ("v1.30.4+k3s1", "1.30.4", true),
            ("v1.30.4", "1.30", true),
            ("v1.30.4", "<=1.30", true),
            ("v1.30.4", ">1.30", false),
            ("v1.30.4", "!=1.30", false),
            ("v1.9.0", "<1.10", true),
            ("4.16", ">=4.16.0", true),
            ("1.30.4", ">=1.29 <1.31", true),
            ("1.31.4", ">=1.29,<1.31", false),
            ("15.3.2.1", "15.3.2", true),
        ] {
            let read = LooseVersion::read(version).unwrap();
            let versions = Versions::read(wanted).unwrap();
            assert_eq!(versions.contain(&read), holds, "{version} {wanted}");
        }
    }

    #[test]
    fn chart_versions_are_split_from_names() {
        for (chart, version) in [
            ("postgresql-12.1.0", "12.1.0"),
            ("postgresql-12.1.0-rc.1", "12.1.0-rc.1"),
            ("k8s-sidecar-1.2.3-rc.1", "1.2.3-rc.1"),
            ("app-2-1.0.0-3-gabcdef", "1.0.0-3-gabcdef"),
            ("cert-manager-v1.16.2", "v1.16.2"),
            ("loki-6.0.0-alpha.1_build.5", "6.0.0-alpha.1_build.5"),
            ("old-1.2", "1.2"),
            ("old-2-v3", "v3"),
            ("old-1.2-rc.1", "1.2-rc.1"),
            ("ends-in-", ""),
            ("nameless", ""),
            ("-1.2.3", "1.2.3"),
            ("", ""),
        ] {
            assert_eq!(of_chart(chart), version, "{chart}");
        }
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "latest", "v", "-1", "99999999999999999999"] {
            assert_eq!(LooseVersion::read(text), None, "{text}");
        }
        for text in ["", " ", "<", "latest", "<1.31 x"] {
            assert!(Versions::read(text).is_none(), "{text}");
        }
    }
}
