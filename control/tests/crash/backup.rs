//! Backups while a hub writes: each is a state that was.

use std::{
    fs::File,
    io::{BufReader, BufWriter},
    path::Path,
};

use fairlead_control::{
    Clock,
    store::{Place, Store},
    upkeep::{HubData, Sink},
};

use crate::{
    kill::look,
    load::{Answered, Writer},
    place::{Ground, Sqlite},
};

/// Written between two backups.
const BETWEEN: usize = 150;

/// How many of one store: while they are taken it grows by all that is written.
const OF_ONE: u32 = 5;

pub(crate) fn a_backup_under_load_restores_to_a_state_that_was<G: Ground>(backups: u32) {
    for done in (0..backups).step_by(OF_ONE as usize) {
        of_one_store::<G>(OF_ONE.min(backups - done));
    }
    println!(
        "{}: {backups} backups under load restore to what was",
        G::NAME
    );
}

fn of_one_store<G: Ground>(backups: u32) {
    let (ground, dir) = (G::new(), tempfile::tempdir().unwrap());
    let file = |number: u32| dir.path().join(format!("backup-{number}"));
    let writer = Writer::start(&ground.place(), "b");
    for number in 0..backups {
        writer.wait_for(BETWEEN);
        back_up(&ground.place(), &file(number));
    }
    let mut answered = Answered::new();
    writer.wait_for(BETWEEN);
    writer.kill(&mut answered);
    for number in 0..backups {
        // Whichever store it is of, it can be looked at in a file.
        let copy = Sqlite::new();
        let revision = restore(&copy.place(), &file(number));
        assert!(revision > 1, "nothing is in it");
        look(&copy.place(), &answered, revision);
    }
}

fn data(place: &str, folder: &Path) -> HubData {
    HubData {
        data_dir: folder.to_owned(),
        store: Some(place.parse::<Place>().unwrap()),
    }
}

#[tokio::main]
async fn back_up(place: &str, file: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let out = Box::new(BufWriter::new(File::create(file).unwrap()));
    let sink = Sink::new(out, &[]).unwrap();
    data(place, folder.path())
        .back_up(sink, false)
        .await
        .unwrap();
}

/// At which revision it is then.
#[tokio::main]
async fn restore(place: &str, file: &Path) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let source = Box::new(BufReader::new(File::open(file).unwrap()));
    let data = data(place, folder.path());
    data.restore(source, false).await.unwrap();
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let revision = store.view().revision().0;
    store.close().await;
    revision
}
