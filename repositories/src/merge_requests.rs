//! Open merge requests of repositories. GitHub, Gitea and Forgejo name them pull requests.

/// An open merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMergeRequest {
    /// Number in its repository.
    pub number: u64,
    /// Title.
    pub title: String,
    /// Address of its web page.
    pub url: String,
    /// Login of its author.
    pub author: String,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Branch that it merges.
    pub branch: String,
    /// Last commit of that branch.
    pub head: String,
    /// True while its author marks it as not ready.
    pub is_draft: bool,
    /// Result of its CI.
    pub ci: CiResult,
    /// Answer of the server about conflicts.
    pub merge: MergeCheck,
}

/// Result of the CI for the last commit of a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CiResult {
    /// No CI has reported.
    None,
    /// A job has not ended.
    Pending,
    /// All jobs have succeeded.
    Passed,
    /// A job has failed.
    Failed,
}

/// Possibility of a merge, without regard to the CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeCheck {
    /// The server can merge it.
    Clean,
    /// It has conflicts, or a rule of the server forbids the merge.
    Blocked,
    /// The server has not checked it yet.
    Unknown,
}

/// Selection of merge requests. All given fields must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeRequestFilter {
    /// A label, in any case of letters.
    pub label: Option<String>,
    /// Login of the author, in any case of letters.
    pub author: Option<String>,
}

/// Prefix of Renovate's branches, its default.
const RENOVATE_BRANCHES: &str = "renovate/";
/// Label and part of the login of Renovate.
const RENOVATE: &str = "renovate";

impl MergeRequestFilter {
    /// True if a merge request matches. Without any field those of Renovate do.
    #[must_use]
    pub fn matches(&self, request: &OpenMergeRequest) -> bool {
        let has_label = |label: &str| {
            let mut labels = request.labels.iter();
            labels.any(|it| it.eq_ignore_ascii_case(label))
        };
        if self.label.is_none() && self.author.is_none() {
            let author = request.author.to_ascii_lowercase();
            return request.branch.starts_with(RENOVATE_BRANCHES)
                || author.contains(RENOVATE)
                || has_label(RENOVATE);
        }
        let author = self.author.as_deref();
        self.label.as_deref().is_none_or(has_label)
            && author.is_none_or(|it| request.author.eq_ignore_ascii_case(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(branch: &str, author: &str, labels: &[&str]) -> OpenMergeRequest {
        OpenMergeRequest {
            number: 1,
            title: "one".to_owned(),
            url: String::new(),
            author: author.to_owned(),
            labels: labels.iter().map(|it| (*it).to_owned()).collect(),
            branch: branch.to_owned(),
            head: String::new(),
            is_draft: false,
            ci: CiResult::None,
            merge: MergeCheck::Clean,
        }
    }

    #[test]
    fn without_a_field_those_of_renovate_match() {
        let filter = MergeRequestFilter::default();
        assert!(filter.matches(&request("renovate/redis-8.x", "ann", &[])));
        assert!(filter.matches(&request("x", "renovate[bot]", &[])));
        assert!(filter.matches(&request("x", "ann", &["Renovate"])));
        assert!(!filter.matches(&request("fix/renovate", "ann", &["bug"])));
    }

    #[test]
    fn all_given_fields_must_match() {
        let filter = |label: Option<&str>, author: Option<&str>| MergeRequestFilter {
            label: label.map(str::to_owned),
            author: author.map(str::to_owned),
        };
        let one = request("renovate/x", "Ann", &["patch"]);
        assert!(filter(Some("Patch"), Some("ann")).matches(&one));
        assert!(!filter(Some("patch"), Some("bob")).matches(&one));
        assert!(
            !filter(Some("renovate"), None).matches(&one),
            "a label replaces the default"
        );
    }
}
