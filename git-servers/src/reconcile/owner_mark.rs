//! Description of a repository with the id of its owner. A hub that ends between a creation and
//! its record recognises the repository by that.

use fairlead_repositories::RepoOwner;

/// Limit of the title within a description, in characters; GitHub allows 350 in all.
const MAX_TITLE_CHARS: usize = 200;
const START: &str = "(Fairlead: ";

/// Description like `Edge one (Fairlead: c-edge)`.
pub(super) fn description(title: &str, owner: &RepoOwner) -> String {
    let printable = title.chars().map(|c| if c.is_control() { ' ' } else { c });
    let title: String = printable.take(MAX_TITLE_CHARS).collect();
    let text = format!("{} {START}{owner})", title.trim());
    text.trim_start().to_owned()
}

/// Id of the owner in a description.
pub(super) fn owner_of(description: &str) -> Option<&str> {
    let (_, mark) = description.trim_end().rsplit_once(START)?;
    mark.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_back_and_titles_cannot_name_one() {
        let owner = RepoOwner::Cluster("c-one".parse().unwrap());
        for title in ["Edge", "", "x (Fairlead: c-two)", &"ä\n".repeat(300)] {
            let text = description(title, &owner);
            assert_eq!(owner_of(&text), Some("c-one"), "{text}");
            assert!(text.chars().count() < 350 && !text.contains('\n'), "{text}");
        }
        for other in ["", "Edge", "(Fairlead: c-one) more", "Fairlead: c-one)"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
