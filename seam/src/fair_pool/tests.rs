//! Tests of `fair_pool`.

use super::*;

fn fill(share: &Arc<Share>) -> Vec<Taken> {
    std::iter::from_fn(|| share.take(1)).collect()
}

#[test]
fn each_busy_group_leaves_a_share_for_the_next() {
    let pool = FairPool::new(120);
    let shares: Vec<_> = (0..3).map(|key| pool.share(key)).collect();
    let taken: Vec<_> = shares.iter().map(fill).collect();
    let lengths: Vec<_> = taken.iter().map(Vec::len).collect();
    assert_eq!(lengths, [60, 30, 15]);
    drop(taken);
    assert_eq!(fill(&shares[2]).len(), 60);
}

#[test]
fn units_are_given_back_on_drop() {
    let pool = FairPool::new(100);
    let mut taken = pool.share("a").take(20).unwrap();
    assert!(taken.grow(30) && !taken.grow(1));
    assert!(pool.share("a").take(1).is_none());
    assert!(pool.share("b").take(26).is_none() && pool.share("b").take(25).is_some());
    drop(taken);
    assert_eq!(pool.share("a").used(), 0);
    assert!(pool.share("a").take(50).is_some());
}

#[test]
fn idle_groups_are_forgotten() {
    let pool = FairPool::new(100);
    let held = pool.share(0).take(10);
    for key in 1..3 * MAX_IDLE_GROUPS {
        pool.share(key);
    }
    assert!(pool.0.groups.lock().unwrap().shares.len() <= MAX_IDLE_GROUPS);
    assert_eq!(pool.share(0).used(), 10);
    drop(held);
}

#[test]
fn held_groups_are_not_searched_by_each_call() {
    let pool = FairPool::new(100);
    let held: Vec<_> = (0..3 * MAX_IDLE_GROUPS)
        .map(|key| pool.share(key))
        .collect();
    let groups = pool.0.groups.lock().unwrap();
    assert!(groups.sweep_at > held.len(), "{}", groups.sweep_at);
}
