//! A waiting room of bounded size for peers that have not proved anything yet. When it is full, the one that has
//! waited longest leaves: idle strangers push each other out and never keep a newcomer from coming in.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct WaitingRoom(Arc<Room>);

struct Room {
    places: usize,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    next: u64,
    waiting: BTreeMap<u64, CancellationToken>,
}

/// A place in the room; given back on drop.
pub(crate) struct Place {
    room: Arc<Room>,
    number: u64,
    evicted: CancellationToken,
}

impl WaitingRoom {
    pub(crate) fn new(places: usize) -> Self {
        WaitingRoom(Arc::new(Room {
            places,
            guests: Mutex::default(),
        }))
    }

    /// Always succeeds, at the cost of whoever has waited longest.
    pub(crate) fn enter(&self) -> Place {
        let evicted = CancellationToken::new();
        let mut guests = self.0.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let number = guests.next;
        guests.next += 1;
        if guests.waiting.len() >= self.0.places
            && let Some((_, oldest)) = guests.waiting.pop_first()
        {
            oldest.cancel();
        }
        guests.waiting.insert(number, evicted.clone());
        Place {
            room: Arc::clone(&self.0),
            number,
            evicted,
        }
    }
}

impl Place {
    /// Completes when the place is needed for somebody else.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut guests = self
            .room
            .guests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        guests.waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_one_that_waited_longest_makes_room() {
        let room = WaitingRoom::new(2);
        let (first, second) = (room.enter(), room.enter());
        let _third = room.enter();
        first.evicted().await;
        assert!(!second.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn who_leaves_gives_the_place_back() {
        let room = WaitingRoom::new(1);
        drop(room.enter());
        let first = room.enter();
        assert!(!first.evicted.is_cancelled());
        assert_eq!(room.0.guests.lock().unwrap().waiting.len(), 1);
    }
}
