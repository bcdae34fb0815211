//! Which ledger lies in a directory, remembered beside it: should the directory be lost, what Cube lists of that ledger is
//! still ours, and is taken back before anything new is admitted.
//!
//! Must stay true: nothing depends on it as long as the ledger is there; a file that cannot be read or written is said, and
//! is no reason not to start.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Settings;
use crate::ids::LedgerId;
use crate::store::settings::Settings as StoreSettings;

/// The ledger that was in the place that the settings name: as the operator says, else as it stands beside the place.
pub(super) fn recall(settings: &Settings) -> Option<LedgerId> {
    if let Some(lost) = &settings.lost_ledger {
        return Some(lost.clone());
    }
    let file = file(&settings.store)?;
    match std::fs::read_to_string(&file) {
        Ok(text) => match LedgerId::new(text.trim()) {
            Ok(id) => Some(id),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the name of the ledger beside it cannot be read");
                None
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "the name of the ledger beside it cannot be read");
            None
        }
    }
}

/// Writes it down, if it does not stand there yet.
pub(super) fn remember(settings: &Settings, id: &LedgerId) {
    if let Some(lost) = settings.lost_ledger.as_ref().filter(|lost| *lost != id) {
        tracing::error!(
            %lost,
            ledger = %id,
            "store.lost_ledger names another ledger than the one that is here: it is not rebuilt; empty the store first, or \
             take the key away"
        );
    }
    let Some(file) = file(&settings.store) else { return };
    let said = format!("{id}\n");
    if std::fs::read_to_string(&file).is_ok_and(|text| text == said) {
        return;
    }
    if let Err(error) = write(&file, &said) {
        tracing::warn!(
            file = %file.display(),
            %error,
            "the name of the ledger could not be written beside it: should its directory be lost, nobody knows whose the \
             sandboxes were"
        );
    }
}

/// Whole or not at all.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let scratch = file.with_extension("ledger.new");
    std::fs::write(&scratch, text)?;
    std::fs::rename(&scratch, file)
}

/// `<store.path>.ledger`, for a ledger that lies in a directory.
fn file(store: &StoreSettings) -> Option<PathBuf> {
    match store {
        StoreSettings::Embedded { path } => {
            let mut name = path.file_name()?.to_owned();
            name.push(".ledger");
            Some(path.with_file_name(name))
        }
        StoreSettings::Memory | StoreSettings::Redis(_) => None,
    }
}
