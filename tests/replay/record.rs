//! What is noted of a run every few seconds, from Cube's own side and from the callers'.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::people::INSTANCE;
use super::stage::Stage;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(10);

/// One note; all but `at`, `residents` and `unowned` count from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) at: Duration,
    /// Sandboxes at Cube.
    pub(super) residents: u64,
    /// Those among them that no living instance owns.
    pub(super) unowned: u64,
    /// Sandboxes that went.
    pub(super) deleted: u64,
    /// Creates that were answered with a sandbox.
    pub(super) created: u64,
    pub(super) creates_failed: u64,
    pub(super) kills_failed: u64,
}

impl Note {
    /// Failures of both kinds.
    pub(super) fn failed(&self) -> u64 {
        self.creates_failed + self.kills_failed
    }
}

/// Lets `length` pass and takes notes.
pub(super) fn watch(stage: &Stage, length: Duration) -> Vec<Note> {
    let (mut at, mut notes) = (Duration::ZERO, Vec::new());
    let mut before: BTreeSet<String> = stage.cube.alive().into_iter().map(|one| one.id).collect();
    let mut deleted = 0;
    loop {
        let alive = stage.cube.alive();
        let unowned = alive.iter().filter(|one| one.metadata.contains_key(INSTANCE)).count() as u64;
        let now: BTreeSet<String> = alive.into_iter().map(|one| one.id).collect();
        deleted += before.difference(&now).count() as u64;
        let tally = &stage.tally;
        notes.push(Note {
            at,
            residents: now.len() as u64,
            unowned,
            deleted,
            created: tally.created.load(Relaxed),
            creates_failed: tally.creates_failed.load(Relaxed),
            kills_failed: tally.kills_failed.load(Relaxed),
        });
        before = now;
        if at >= length {
            return notes;
        }
        stage.pass(EVERY);
        at += EVERY;
    }
}

/// Both runs side by side, a line a minute.
pub(super) fn table(article: &[Note], warden: &[Note]) -> String {
    let mut text = String::new();
    let columns = "residents  deleted  created   failed";
    writeln!(text, "{:>6} | {:^36} | {:^36}", "", "as in the article", "with cubewarden").unwrap();
    writeln!(text, "{:>6} | {columns} | {columns}", "minute").unwrap();
    let side = |note: &Note| {
        format!("{:9}  {:7}  {:7}  {:7}", note.residents, note.deleted, note.created, note.failed())
    };
    let minutes = article.iter().zip(warden).filter(|(note, _)| note.at.as_secs() % 60 == 0);
    for (left, right) in minutes {
        writeln!(text, "{:>6} | {} | {}", left.at.as_secs() / 60, side(left), side(right)).unwrap();
    }
    text
}
