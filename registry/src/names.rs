//! Rules for names, and generated names.

use fairlead_store::random::{self, RandomError};

use fairlead_routes::InvalidValue;

/// Maximum length of a display name, in characters.
const MAX_DISPLAY_NAME_CHARS: usize = 100;

/// Validates a display name, or returns the default.
///
/// # Errors
/// `FL-4109` if it is empty, too long, or contains invisible characters.
pub(crate) fn display_name(given: Option<String>, default: &str) -> Result<String, InvalidValue> {
    let Some(name) = given else {
        return Ok(default.to_owned());
    };
    let shown = |c: char| !c.is_control() && !is_layout(c);
    let length = name.chars().count();
    if name.trim() != name
        || !(1..=MAX_DISPLAY_NAME_CHARS).contains(&length)
        || !name.chars().all(shown)
    {
        let detail = format!(
            "displayName has 1 to {MAX_DISPLAY_NAME_CHARS} characters, no control characters, no space around it"
        );
        return Err(InvalidValue::because(detail));
    }
    Ok(name)
}

/// Line separators and direction marks.
fn is_layout(c: char) -> bool {
    matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Validates a caller's name, which becomes the user `fairlead:<name>`. Without a colon it cannot
/// equal a name of Kubernetes (`system:...`).
///
/// # Errors
/// `FL-4109`
pub fn caller_name(name: &str) -> Result<(), InvalidValue> {
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '@');
    if (1..=63).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    let detail = "name has 1 to 63 of a-z, 0-9, '.', '_', '-', '@'";
    Err(InvalidValue::because(detail))
}

/// Generates a name like `green-lake-4711`.
///
/// # Errors
/// [`RandomError`] without random bytes.
pub(crate) fn generated() -> Result<String, RandomError> {
    let [a, b, c, d] = random::bytes::<4>()?;
    let pick = |words: &[&'static str], at: u8| {
        let count = words.len().max(1);
        words.get(usize::from(at) % count).copied().unwrap_or("new")
    };
    let number = u16::from_be_bytes([c, d]) % 10_000;
    Ok(format!(
        "{}-{}-{number:04}",
        pick(&ADJECTIVES, a),
        pick(&NOUNS, b)
    ))
}

const ADJECTIVES: [&str; 64] = [
    "amber", "bold", "brave", "bright", "brisk", "calm", "clear", "clever", "cool", "copper",
    "coral", "crisp", "deep", "eager", "early", "fair", "fast", "fine", "firm", "fresh", "gentle",
    "golden", "grand", "green", "happy", "hardy", "high", "humble", "ivory", "keen", "kind",
    "lucid", "lucky", "mellow", "merry", "mild", "modest", "neat", "nimble", "noble", "old",
    "patient", "plain", "proud", "quick", "quiet", "rapid", "red", "rich", "rustic", "sharp",
    "silent", "silver", "smooth", "snowy", "solid", "steady", "sunny", "swift", "tall", "tidy",
    "warm", "wild", "wise",
];

const NOUNS: [&str; 64] = [
    "anchor", "arbor", "bay", "beach", "beacon", "birch", "bridge", "brook", "buoy", "canal",
    "cape", "cedar", "cliff", "cloud", "coast", "cove", "creek", "current", "delta", "dune", "elm",
    "fern", "field", "fjord", "forest", "garden", "glade", "grove", "gulf", "harbor", "heron",
    "hill", "island", "lagoon", "lake", "lantern", "maple", "marsh", "meadow", "moor", "mountain",
    "oak", "ocean", "otter", "pebble", "pine", "pond", "quay", "reef", "ridge", "river", "sail",
    "shore", "spruce", "stone", "strait", "stream", "summit", "tide", "valley", "wave", "wharf",
    "willow", "wind",
];

#[cfg(test)]
mod tests;
