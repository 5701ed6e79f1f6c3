//! Ids of clusters that a thread has parsed last: the next request to one of them costs no copy of its id.

use std::cell::RefCell;

use fairlead_api::ClusterId;

/// Ids that a thread keeps, one per place: the latest stays.
const MAX_KEPT_IDS: usize = 64;

thread_local! {
    static RECENT: RefCell<[Option<ClusterId>; MAX_KEPT_IDS]> = const { RefCell::new([const { None }; MAX_KEPT_IDS]) };
}

/// Parses an id, or finds it among the recent ones; `None` for text that is no id.
pub(super) fn parse(text: &str) -> Option<ClusterId> {
    // Ids mostly differ in their last digits.
    let place = text
        .bytes()
        .rev()
        .take(3)
        .fold(0, |sum, byte| (sum * 10 + usize::from(byte)) % MAX_KEPT_IDS);
    let recent = RECENT.try_with(|recent| {
        let recent = recent.try_borrow().ok()?;
        let id = recent.get(place)?.as_ref()?;
        (id.as_str() == text).then(|| id.clone())
    });
    if let Ok(Some(id)) = recent {
        return Some(id);
    }
    let id: ClusterId = text.parse().ok()?;
    let _ = RECENT.try_with(|recent| {
        let mut recent = recent.try_borrow_mut().ok()?;
        recent.get_mut(place)?.replace(id.clone())
    });
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_ids_are_those_of_their_text() {
        let texts: Vec<_> = (0..300).map(|it| format!("c-cluster-{it}")).collect();
        for text in texts.iter().chain(&texts[..40]).chain(&texts[..40]) {
            assert_eq!(parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn text_that_is_no_id_stays_none() {
        for text in ["", "c-", "t-a", "c-A", "c-a/b", "c-\u{e9}"] {
            assert_eq!((parse(text), parse(text)), (None, None), "{text}");
        }
    }
}
