//! Prints an error together with its causes.

use std::error::Error;

/// An error and its sources, separated by `: `.
///
/// A source is left out where the text before it contains it already: many libraries repeat their cause in their own
/// words.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Level {
        text: &'static str,
        source: Option<Box<Level>>,
    }

    #[test]
    fn causes_follow_in_order_and_repeated_ones_are_left_out() {
        let level = |text, source: Option<Level>| Level {
            text,
            source: source.map(Box::new),
        };
        let root = || level("refused", None);
        assert_eq!(error_chain(&root()), "refused");
        let two = level("cannot connect", Some(root()));
        assert_eq!(error_chain(&two), "cannot connect: refused");
        let repeated = level("tcp: refused", Some(root()));
        let three = level("cannot send", Some(repeated));
        assert_eq!(error_chain(&three), "cannot send: tcp: refused");
    }
}
