//! Versions of agents that a hub works with, and the image of a version.

use fairlead_api::{Code, Failure};
use semver::Version;

/// Agents may be this number of minor versions older than the hub.
const MAX_MINORS_BEHIND: u64 = 2;

/// Checks that a hub works with agents of a version.
///
/// # Errors
/// `FL-4180` for a newer version, another major version, or one that is too old. `FL-4109` for a text that is no version.
pub(super) fn check(hub: &str, desired: &str) -> Result<(), Failure> {
    let of = |text: &str| {
        Version::parse(text)
            .map_err(|error| Failure::because(Code::Invalid, format_args!("version: {error}")))
    };
    let (of_hub, of_agent) = (of(hub)?, of(desired)?);
    let refused = |cause: String| Err(Failure::because(Code::UpgradeVersion, cause));
    if of_agent > of_hub {
        return refused(format!("{desired} is newer than the hub ({hub})"));
    }
    let is_too_old = of_agent.major != of_hub.major
        || of_hub.minor.saturating_sub(of_agent.minor) > MAX_MINORS_BEHIND;
    if is_too_old {
        return refused(format!(
            "{desired} is more than {MAX_MINORS_BEHIND} minor versions older than the hub ({hub})"
        ));
    }
    Ok(())
}

/// Image of agents of a version: that of the hub's install manifests, with another tag.
///
/// # Errors
/// `FL-4182` if the hub's image has no tag, or a digest.
pub(super) fn image_of(hub: &str, image: &str, desired: &str) -> Result<String, Failure> {
    if hub == desired {
        return Ok(image.to_owned());
    }
    let refused = |cause: String| Failure::because(Code::UpgradeImage, cause);
    if image.contains('@') {
        return Err(refused(format!(
            "the hub's image {image} has a digest, which belongs to {hub}"
        )));
    }
    // A colon before the last slash belongs to the port of a registry.
    let tag = image.rfind(':').filter(|at| Some(*at) > image.rfind('/'));
    let name = tag.and_then(|at| image.get(..at));
    let name = name.ok_or_else(|| refused(format!("the hub's image {image} has no tag")))?;
    Ok(format!("{name}:{desired}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_works_with_its_version_and_two_minors_before_it() {
        for good in ["1.7.3", "1.7.0", "1.6.9", "1.5.0", "1.7.3-rc.1"] {
            check("1.7.3", good).unwrap();
        }
        for bad in ["1.7.4", "1.8.0", "2.0.0", "1.4.9", "0.9.0"] {
            let failure = check("1.7.3", bad).unwrap_err();
            assert_eq!(failure.code, Code::UpgradeVersion, "{bad}");
        }
        for bad in ["", "1.7", "v1.7.0", "latest"] {
            assert_eq!(
                check("1.7.3", bad).unwrap_err().code,
                Code::Invalid,
                "{bad}"
            );
        }
    }

    #[test]
    fn image_gets_the_version_as_its_tag() {
        let of = |image: &str| image_of("1.7.3", image, "1.6.0");
        assert_eq!(of("fairlead:1.7.3").unwrap(), "fairlead:1.6.0");
        assert_eq!(
            of("reg.example:5000/a/fairlead:x").unwrap(),
            "reg.example:5000/a/fairlead:1.6.0"
        );
        for without in [
            "fairlead",
            "reg.example:5000/a/fairlead",
            "a/b:1@sha256:0123",
        ] {
            assert_eq!(
                of(without).unwrap_err().code,
                Code::UpgradeImage,
                "{without}"
            );
            assert_eq!(image_of("1.7.3", without, "1.7.3").unwrap(), without);
        }
    }
}
