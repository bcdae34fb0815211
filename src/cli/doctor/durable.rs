//! Whether what the ledger is told outlives a crash: the file system of the embedded one, the settings of Redis.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Severity::{Danger, Warning};
use super::cube::skew;
use super::{Finding, ill, well};
use crate::store::Store as _;
use crate::store::redis::{Redis, Time};
use crate::store::settings::{Redis as RedisSettings, Settings};
use crate::time::Clock;

pub(super) async fn look(store: &Settings, clock: &Arc<dyn Clock>) -> Vec<Finding> {
    match store {
        Settings::Embedded { path } => {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            vec![on_disk(path, &mounts)]
        }
        Settings::Redis(redis) => in_redis(redis, clock).await,
        // Said by the configuration already.
        Settings::Memory => Vec::new(),
    }
}

/// The directory as it is, or the nearest of its parents that exists.
fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| {
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        ancestor.canonicalize().ok()
    });
    found.unwrap_or_else(|| path.to_owned())
}

fn on_disk(path: &Path, mounts: &str) -> Finding {
    let place = existing(path);
    let says = |what: &str| format!("{} lies on {what}", place.display());
    match file_system(&place, mounts).as_deref() {
        Some(kind @ ("tmpfs" | "ramfs")) => {
            let remedy = "set store.path to a directory on a disk";
            ill(
                Danger,
                "ledger",
                says(&format!("{kind}, which is memory: a restart of the machine forgets it")),
                remedy,
            )
        }
        Some("overlay") => {
            let remedy = "mount a volume there, and set store.path to it";
            ill(Warning, "ledger", says("a container's own layer: it is gone with the container"), remedy)
        }
        Some(kind) if kind.starts_with("nfs") || kind == "cifs" || kind.starts_with("fuse") => {
            let remedy = "use a disk of this machine; several wardens share Redis, not files";
            ill(
                Warning,
                "ledger",
                says(&format!("{kind}: whether a write is durable there is the server's word")),
                remedy,
            )
        }
        Some(kind) => well("ledger", says(kind)),
        None => well("ledger", format!("{} is used; on which file system cannot be told", place.display())),
    }
}

/// What is mounted where the path lies: the last of the longest mount points that it is under.
fn file_system(path: &Path, mounts: &str) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut columns = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (columns.next(), columns.next()) else { continue };
        let point = point.replace("\\040", " ");
        let longer = best.is_none_or(|(length, _)| point.len() >= length);
        if longer && path.starts_with(&point) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

async fn in_redis(settings: &RedisSettings, clock: &Arc<dyn Clock>) -> Vec<Finding> {
    let redis = match Redis::open(settings, Time::OfRedis).await {
        Ok(redis) => redis,
        Err(error) => return vec![ill(Danger, "ledger", error.to_string(), "mend what the sentence names")],
    };
    let mut found = Vec::new();
    found.push(match redis.append_only().await {
        Some(true) => well("ledger", "Redis keeps an append-only file"),
        Some(false) => ill(
            Danger,
            "ledger",
            "Redis keeps no append-only file: what it was told since its last dump is lost when it ends",
            "set `appendonly yes` in its configuration (and `appendfsync always` where no commit may be lost)",
        ),
        None => ill(
            Warning,
            "ledger",
            "whether Redis keeps an append-only file could not be found out",
            "look for `appendonly yes` in its configuration",
        ),
    });
    if let Ok(snapshot) = redis.read(&[]).await {
        found.push(skew("Redis", clock.now(), snapshot.now));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "overlay / overlay rw 0 0\nproc /proc proc rw 0 0\ntmpfs /run tmpfs rw 0 0\n\
        /dev/sda1 /var/lib ext4 rw 0 0\nserver:/x /var/lib/shared nfs4 rw 0 0\n\
        /dev/sdb1 /run/my\\040disk xfs rw 0 0\ntorn";

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let kind = |path: &str| file_system(Path::new(path), MOUNTS);
        for (path, found) in [
            ("/etc", "overlay"),
            ("/run/cubewarden", "tmpfs"),
            ("/runner", "overlay"),
            ("/var/lib/cubewarden", "ext4"),
            ("/var/lib/shared/x", "nfs4"),
            ("/run/my disk/x", "xfs"),
        ] {
            assert_eq!(kind(path).as_deref(), Some(found), "{path}");
        }
        assert_eq!(file_system(Path::new("/x"), ""), None);
    }

    #[test]
    fn memory_is_a_danger_and_a_disk_is_well() {
        let all = |kind: &str| format!("x / {kind} rw 0 0");
        let severity = |kind: &str| on_disk(Path::new("/"), &all(kind)).severity;
        assert_eq!(severity("tmpfs"), Danger);
        assert_eq!(severity("overlay"), Warning);
        assert_eq!(severity("nfs4"), Warning);
        assert_eq!(on_disk(Path::new("/"), &all("ext4")).remedy, None);
    }
}
