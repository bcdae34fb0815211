//! SIGHUP: limits, policies and tenants are read again, all or nothing.
//!
//! Must stay true: a file with one problem changes nothing; what needs a restart keeps its old value and is named each time.

use super::load;
use super::warden::Warden;
use crate::calls::settings::Tenancy;
use crate::config::{Difference, Settings};

use std::path::PathBuf;

/// The configuration of a running warden.
pub(super) struct Reloading {
    file: Option<PathBuf>,
    /// What the process was started with: what needs a restart holds as it stands there.
    started: Settings,
    /// What was read last.
    last: Settings,
}

impl Reloading {
    /// Remembers where the settings came from.
    pub(super) fn new(file: Option<PathBuf>, settings: Settings) -> Self {
        Self { file, last: settings.clone(), started: settings }
    }

    /// Reads the configuration again and takes into force what may change at run time.
    pub(super) fn reload(&mut self, warden: &Warden) {
        let read = match load(self.file.as_deref()) {
            Ok(settings) => settings,
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "the configuration was not reloaded; nothing changed"
                );
                return;
            }
        };
        if opens_up(&self.started, &read) {
            tracing::error!(
                "the configuration was not reloaded; nothing changed: it names no tenant any more, which would open this \
                 warden to everybody; restart it if that is meant"
            );
            return;
        }
        let at_once = Settings::reloadable_difference(&self.last, &read).at_once;
        let after_restart = Settings::reloadable_difference(&self.started, &read).after_restart;
        warden.reload(&in_force(&self.started, &read));
        self.last = read;
        tell(&Difference { at_once, after_restart });
    }
}

/// A file that lost its tenants (cut off by a save that was not finished) must not turn a governed platform open.
fn opens_up(started: &Settings, read: &Settings) -> bool {
    matches!(started.calls.tenancy, Tenancy::Tenants(_)) && read.calls.tenancy == Tenancy::Open
}

/// The settings that were just read, but what needs a restart is as it was at the start.
fn in_force(started: &Settings, read: &Settings) -> Settings {
    let mut settings = Settings { calls: read.calls.clone(), ..started.clone() };
    settings.calls.write_path = started.calls.write_path.clone();
    settings
}

fn tell(difference: &Difference) {
    if difference.at_once.is_empty() {
        tracing::info!("the configuration was reloaded; nothing that can change at run time is different");
    } else {
        tracing::info!(changed = difference.at_once.join(", "), "the configuration was reloaded");
    }
    if !difference.after_restart.is_empty() {
        tracing::warn!(
            waiting = difference.after_restart.join(", "),
            "some settings that changed hold only after a restart"
        );
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::config;

    #[test]
    fn what_a_reload_takes_into_force_is_exactly_what_it_says_holds_at_once() {
        let settings = |text| config::load(text, []).unwrap();
        let started = settings("");
        let read = settings(
            "[reconciler]\nsearch = \"7s\"\n[write_path]\nfailures = 7\n[proxy]\ndrain = \"7s\"\n\
             [admission]\nwait = \"7s\"\n[bucket_defaults]\nlimit = 7",
        );
        let difference = Settings::reloadable_difference(&started, &read);
        assert_eq!(difference.at_once, ["admission.wait", "bucket_defaults.limit"]);
        let held = in_force(&started, &read);
        assert_eq!((held.tasks, held.proxy), (started.tasks, started.proxy));
        assert_eq!(held.calls.write_path, started.calls.write_path);
        assert_eq!(held.calls.policies, read.calls.policies);
        assert_eq!(held.calls.admission, read.calls.admission);
    }

    #[test]
    fn a_file_that_lost_its_tenants_does_not_open_the_warden_to_everybody() {
        let settings = |text: &str| config::load(text, []).unwrap();
        let tenants = format!(
            "[[tenant]]\nname = \"a\"\nkeys_sha256 = [\"{}\"]\nbuckets = [\"a/prod\"]\n",
            "1".repeat(64)
        );
        let (closed, open) = (settings(&tenants), settings(""));
        assert!(opens_up(&closed, &open));
        assert!(!opens_up(&closed, &closed) && !opens_up(&open, &closed) && !opens_up(&open, &open));
    }
}
