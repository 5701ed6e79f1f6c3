//! Real disks: a small one, and one that fails and may become read-only. They are mounted in a
//! private mount namespace, which requires root; otherwise the tests report that they were skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fairlead_store::{Clock, Place, Store};

use fairlead_testkit::mounts::{restart_isolated, run};

use crate::room::{fill, put, reads_go_on, there};

/// Size of the file that is removed to free space, in bytes.
const BALLAST_BYTES: usize = 1 << 20;

pub(crate) fn a_small_and_a_broken_disk_are_told() {
    let folder = tempfile::tempdir().unwrap();
    restart_isolated("disk", folder.path());
}

/// Runs inside the private mount namespace.
pub(crate) fn within(folder: &Path) {
    let small = folder.join("small");
    fs::create_dir(&small).unwrap();
    match run("mount", &["-t", "tmpfs", "-o", "size=4m", "none"], &small) {
        Ok(()) => {
            a_small_disk(&small);
            println!("a small disk was told, and overcome when there was room again");
        }
        Err(why) => println!("SKIPPED: a small disk: {why}"),
    }
    let broken = folder.join("broken");
    fs::create_dir(&broken).unwrap();
    match Disk::attach(folder, &broken) {
        Ok(disk) => {
            a_broken_disk(&broken, &disk);
            println!("a disk that broke was told, and nothing that was answered is lost");
        }
        Err(why) => println!("SKIPPED: a broken disk: {why}"),
    }
}

#[tokio::main]
async fn a_small_disk(folder: &Path) {
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    let store = Store::open(&place(folder), Clock::system()).await.unwrap();
    let kept = fill(&store).await;
    reads_go_on(&store, kept).await;
    fs::remove_file(ballast).unwrap();
    put(&store, kept).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}

/// A loop device on a filesystem smaller than the device: writes fail at some point.
struct Disk {
    device: String,
    below: PathBuf,
}

impl Disk {
    fn attach(folder: &Path, at: &Path) -> Result<Self, String> {
        let below = folder.join("below");
        fs::create_dir(&below).map_err(|error| error.to_string())?;
        run("mount", &["-t", "tmpfs", "-o", "size=16m", "none"], &below)?;
        let image = below.join("image");
        let file = fs::File::create(&image).and_then(|file| file.set_len(64 << 20));
        file.map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-F"], &image)?;
        let mut attach = Command::new("losetup");
        let attached = attach.args(["--find", "--show"]).arg(&image).output();
        let attached = attached.map_err(|error| format!("losetup: {error}"))?;
        if !attached.status.success() {
            let why = String::from_utf8_lossy(&attached.stderr);
            return Err(format!("losetup: {}", why.trim()));
        }
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        let disk = Disk { device, below };
        disk.mount(at)?;
        Ok(disk)
    }

    fn mount(&self, at: &Path) -> Result<(), String> {
        run("mount", &["-o", "errors=remount-ro", &self.device], at)
    }

    /// Grows the backing filesystem to the device's size.
    fn mend(&self) {
        run("mount", &["-o", "remount,size=128m"], &self.below).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Errors were reported earlier.
        let _ = run("losetup", &["--detach"], self.device.as_ref());
    }
}

#[tokio::main]
async fn a_broken_disk(folder: &Path, disk: &Disk) {
    let store = Store::open(&place(folder), Clock::system()).await.unwrap();
    let kept = fill(&store).await;
    assert_eq!(there(&store), kept, "reads go on");
    store.close().await;
    run("umount", &[], folder).unwrap();
    disk.mend();
    disk.mount(folder).unwrap();
    let store = Store::open(&place(folder), Clock::system()).await.unwrap();
    let there = there(&store);
    // The write in progress at the failure may have succeeded.
    assert!((kept..=kept + 1).contains(&there), "{kept} {there}");
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    put(&store, there).await.unwrap();
    store.close().await;
    run("umount", &[], folder).unwrap();
}

fn place(folder: &Path) -> Place {
    Place::File(folder.join("fairlead.db"))
}
