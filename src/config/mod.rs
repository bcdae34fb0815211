//! The configuration: file and environment become the Settings of the rooms, or a list of everything that is wrong.
//!
//! Must stay true: [`load`] is pure (the text and the variables are arguments), it never stops at the first problem, and
//! what it returns needs no further check. Each room's Settings live in the room; this one alone knows how they are
//! written. `config/cubewarden.toml` is the complete form; a test holds it to the defaults here.

mod background;
mod buckets;
mod gates;
mod identity;
mod kinds;
mod listeners;
mod nearest;
mod not_yet;
mod problem;
mod sheet;
mod span;
mod storage;
mod tenants;
mod upstream;

pub use problem::{Problem, Problems, Source};
pub use sheet::Effective;

use crate::ids::LedgerId;
use crate::{admin, calls, cube, proxy, store, tasks, telemetry};
use sheet::Sheet;

/// The whole configuration, as meant.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients are served.
    pub proxy: proxy::settings::Settings,
    /// Where the operator is served.
    pub admin: admin::settings::Settings,
    /// Which Cube stands behind.
    pub cube: cube::settings::Settings,
    /// Which store keeps the ledger.
    pub store: store::settings::Settings,
    /// The ledger that was in that store before it was lost, if the operator says so.
    pub lost_ledger: Option<LedgerId>,
    /// What the calls go by, the policies of the buckets among it.
    pub calls: calls::settings::Settings,
    /// What the background tasks go by.
    pub tasks: tasks::settings::Settings,
    /// How logs are written.
    pub log: telemetry::logs::Settings,
    /// Every value that holds, and who wrote it.
    pub effective: Vec<Effective>,
}

/// Reads a configuration file's text; of `env`, the variables `CUBEWARDEN_<SECTION>_<KEY>` override it, and those that
/// an `.._env` key names hold secrets.
///
/// # Errors
/// All [`Problems`] at once.
pub fn load(text: &str, env: impl IntoIterator<Item = (String, String)>) -> Result<Settings, Problems> {
    let mut sheet = Sheet::open(text, env)?;
    let (proxy, admin) = listeners::read(&mut sheet);
    let cube = upstream::read(&mut sheet, proxy.listen);
    let (store, lost_ledger, decisions) = storage::read(&mut sheet);
    let tenancy = tenants::read(&mut sheet);
    let adopt = identity::adopt(&mut sheet, &tenancy);
    let policies = buckets::name_adopting(buckets::read(&mut sheet, &tenancy), &adopt);
    let collector = background::collector(&mut sheet);
    let (reconciler, deletes) = background::reconciler(&mut sheet);
    not_yet::refuse(&mut sheet, &cube);
    let identity = identity::identity(&mut sheet);
    let admission = gates::admission(&mut sheet);
    let compat = identity::compat(&mut sheet);
    let write_path = gates::write_path(&mut sheet, cube.budgets.call);
    let log = identity::log(&mut sheet);
    let mode = identity::mode(&mut sheet);
    let effective = sheet.close()?;
    let calls =
        calls::settings::Settings { mode, tenancy, identity, adopt, admission, compat, write_path, policies };
    let tasks = tasks::settings::Settings { collector, reconciler, deletes, decisions };
    Ok(Settings { proxy, admin, cube, store, lost_ledger, calls, tasks, log, effective })
}

/// What a reload changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Keys whose new values hold at once.
    pub at_once: Vec<String>,
    /// Keys whose new values wait for a restart.
    pub after_restart: Vec<String>,
}

/// Sections that are read again while the warden runs.
const RELOADED: [&str; 9] = [
    "mode",
    "identity",
    "adopt",
    "admission",
    "compat",
    "bucket_defaults",
    "env_defaults",
    "bucket",
    "tenant",
];

impl Settings {
    /// Which keys two configurations differ in, and which of those need a restart.
    #[must_use]
    pub fn reloadable_difference(old: &Self, new: &Self) -> Difference {
        let mut difference = Difference::default();
        let (ours, theirs) = (fingerprints(old), fingerprints(new));
        for key in ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(*key))) {
            let section = key.split('.').next().unwrap_or_default();
            let changed = ours.get(key) != theirs.get(key);
            if changed && RELOADED.contains(&section) {
                difference.at_once.push((*key).to_owned());
            } else if changed {
                difference.after_restart.push((*key).to_owned());
            }
        }
        difference
    }
}

fn fingerprints(settings: &Settings) -> std::collections::BTreeMap<&str, u64> {
    settings.effective.iter().map(|value| (value.key.as_str(), value.fingerprint)).collect()
}
