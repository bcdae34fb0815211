//! SIGHUP: limits, policies and tenants are read again, all or nothing.
//!
//! Must stay true: a file with one problem changes nothing; what needs a restart keeps its old value and is named each time.

use super::load;
use super::warden::Warden;
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
        let at_once = Settings::reloadable_difference(&self.last, &read).at_once;
        let after_restart = Settings::reloadable_difference(&self.started, &read).after_restart;
        warden.reload(&self.in_force(&read));
        self.last = read;
        tell(&Difference { at_once, after_restart });
    }

    /// The new settings, but what needs a restart is as it was at the start.
    fn in_force(&self, read: &Settings) -> Settings {
        let mut settings = Settings { calls: read.calls.clone(), ..self.started.clone() };
        settings.calls.write_path = self.started.calls.write_path.clone();
        settings
    }
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
