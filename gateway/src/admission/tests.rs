//! Tests of `admission`.

use super::*;

fn still(capacity: &[Slot]) -> usize {
    let still = capacity
        .iter()
        .filter(|place| !place.evicted.is_cancelled());
    still.count()
}

const ANN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

#[tokio::test]
async fn oldest_slot_is_evicted() {
    let pool = AdmissionPool::new(2);
    let (first, second) = (pool.acquire(ANN), pool.acquire(ANN));
    let _third = pool.acquire(ANN);
    first.evicted().await;
    assert!(!second.evicted.is_cancelled());
}

#[tokio::test]
async fn largest_holder_is_evicted_first() {
    let pool = AdmissionPool::new(3);
    let alone = pool.acquire(BOB);
    let many = [pool.acquire(ANN), pool.acquire(ANN)];
    let _newcomer = pool.acquire(BOB);
    many[0].evicted().await;
    assert!(!alone.evicted.is_cancelled() && !many[1].evicted.is_cancelled());
}

#[tokio::test]
async fn dropped_slot_is_free_again() {
    let pool = AdmissionPool::new(1);
    drop(pool.acquire(ANN));
    let first = pool.acquire(BOB);
    assert!(!first.evicted.is_cancelled());
    let pending = pool.0.pending();
    assert_eq!((pending.count, pending.waiting.len()), (1, 1));
}

#[test]
fn flood_from_one_address_evicts_only_itself() {
    let pool = AdmissionPool::new(100);
    let few: Vec<_> = (0..30).map(|_| pool.acquire(BOB)).collect();
    let flood: Vec<_> = (0..10_000).map(|_| pool.acquire(ANN)).collect();
    assert_eq!((still(&few), still(&flood)), (30, 70));
    // Later peers get in too, at the cost of the flood.
    let late: Vec<_> = (0..20)
        .map(|_| pool.acquire([192, 0, 2, 3].into()))
        .collect();
    let (few, late) = (still(&few), still(&late));
    assert_eq!((few, late, still(&flood)), (30, 20, 50));
}

#[test]
fn capacity_is_shared_evenly_under_pressure() {
    let pool = AdmissionPool::new(90);
    let mut all: Vec<Vec<_>> = Vec::new();
    for (address, share) in [(1, 90_usize), (2, 45), (3, 30)] {
        let come = (0..1000).map(|_| pool.acquire([192, 0, 2, address].into()));
        all.push(come.collect());
        // On a tie either loses a slot.
        assert!(all.iter().all(|of_one| still(of_one).abs_diff(share) <= 1));
    }
}

#[test]
fn one_network_counts_as_one_client() {
    let pool = AdmissionPool::new(10);
    let few: Vec<_> = (0..4).map(|_| pool.acquire(BOB)).collect();
    let flood = (0..1000_u16).map(|n| [0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into());
    let flood: Vec<_> = flood.map(|from: IpAddr| pool.acquire(from)).collect();
    assert_eq!((still(&few), still(&flood)), (4, 6));
}

#[tokio::test]
async fn beyond_its_limit_a_peer_loses_its_own_oldest_slot() {
    let pool = AdmissionPool::per_peer(2);
    let other = pool.enter("other");
    let mut slots: Vec<_> = (0..5).map(|_| pool.enter("busy")).collect();
    let is_evicted = |slot: &Slot<&str>| slot.evicted.is_cancelled();
    assert!(slots[..3].iter().all(is_evicted) && !slots[3..].iter().any(is_evicted));
    assert!(!is_evicted(&other));
    // An evicted slot is given back once.
    slots.truncate(4);
    slots.push(pool.enter("busy"));
    assert!(!is_evicted(&slots[3]) && !is_evicted(&slots[4]));
}
