//! `cubewarden check`: which settings hold, and whether Cube and the ledger can be reached with them.
//!
//! Must stay true: it changes nothing, at Cube or in the ledger; a running warden is not disturbed.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::guarding::guard;
use super::warden::{open_store, ways};
use super::{load, say, ways_round};
use crate::calls::classify::Call;
use crate::config::Settings;
use crate::cube::client::{Client, ListFailed};
use crate::ledger::{self, Ledger};
use crate::rules::entry::Timing;
use crate::store::embedded::OpenError;
use crate::store::redis::{Redis, Time};
use crate::store::settings::{Redis as RedisSettings, Settings as StoreSettings};
use crate::telemetry::{Metrics, Names};
use crate::time::{Chance, Clock, WallClock};

/// How one look ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Ok,
    Warning,
    Failed,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One thing that was looked at, in a sentence.
struct Finding {
    about: &'static str,
    mark: Mark,
    says: String,
}

fn finding(about: &'static str, mark: Mark, says: impl Into<String>) -> Finding {
    Finding { about, mark, says: says.into() }
}

/// Looks at everything, and says what it found.
pub(super) fn run(file: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let settings = load(file)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let findings = runtime.block_on(async {
        let mut findings = look_at_cube(&settings, &clock).await?;
        findings.push(look_at_ledger(&settings, &clock).await);
        findings.extend(exposed(&settings).into_iter().map(|says| finding("exposure", Mark::Warning, says)));
        findings.extend(unlimited(&settings));
        anyhow::Ok(findings)
    })?;
    let failed = findings.iter().any(|finding| finding.mark == Mark::Failed);
    say(&if as_json {
        format!("{}\n", report(&settings, &findings, !failed))
    } else {
        in_words(&settings, &findings)
    })?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(settings: &Settings, findings: &[Finding], ok: bool) -> Value {
    let settings = settings
        .effective
        .iter()
        .map(|value| json!({ "key": value.key, "value": value.value, "source": value.source.to_string() }));
    let findings = findings.iter().map(
        |finding| json!({ "about": finding.about, "result": finding.mark.name(), "message": finding.says }),
    );
    json!({ "ok": ok, "settings": settings.collect::<Vec<_>>(), "checks": findings.collect::<Vec<_>>() })
}

fn in_words(settings: &Settings, findings: &[Finding]) -> String {
    let settings = settings.effective.iter().map(|value| format!("{value}\n"));
    let findings = findings
        .iter()
        .map(|finding| format!("{:8} {}: {}\n", finding.mark.name(), finding.about, finding.says));
    settings.chain(["\n".to_owned()]).chain(findings).collect()
}

/// The Cube API, as the warden would use it.
pub(super) fn client(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Client> {
    let metrics = Arc::new(Metrics::new(Names { calls: Call::all_names(), mends: &[] }, []));
    let cube = &settings.cube;
    let (ways, guard) = (ways(settings, &metrics, clock)?, guard(settings, &metrics, clock));
    Ok(Client::new(ways, guard, cube.api_key.clone(), cube.budgets, Arc::clone(clock)))
}

/// Reachability, and whether Cube takes the warden's own key.
async fn look_at_cube(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Vec<Finding>> {
    let client = client(settings, clock)?;
    let base = &settings.cube.base;
    if !client.is_up().await {
        let says = format!(
            "GET {base}health got no good answer: start CubeAPI, or set upstream.url to where it listens"
        );
        return Ok(vec![finding("cube", Mark::Failed, says)]);
    }
    let reached = finding("cube", Mark::Ok, format!("{base} answers"));
    let credential = match client.list(&client.own_credential()).await {
        Ok(listed) => {
            finding("credential", Mark::Ok, format!("Cube lists {} sandboxes to the warden", listed.len()))
        }
        Err(ListFailed::KeyWanted) => finding("credential", Mark::Failed, key_wanted(settings)),
        Err(error) => finding("credential", Mark::Failed, error.to_string()),
    };
    Ok(vec![reached, credential])
}

pub(super) fn key_wanted(settings: &Settings) -> String {
    let named = settings.effective.iter().find(|value| value.key == "upstream.api_key_env");
    match (&settings.cube.api_key, named) {
        (Some(_), Some(named)) => {
            format!("Cube refuses the key in the variable {}: put Cube's own key there", named.value)
        }
        _ => "Cube demands a key: put it into an environment variable, CUBE_API_KEY for instance, and name that \
              variable in upstream.api_key_env (or CUBEWARDEN_UPSTREAM_API_KEY_ENV)"
            .to_owned(),
    }
}

/// Whether the ledger can be opened; one that does not exist is not made.
async fn look_at_ledger(settings: &Settings, clock: &Arc<dyn Clock>) -> Finding {
    let path = match &settings.store {
        StoreSettings::Embedded { path } => path,
        StoreSettings::Memory => {
            return finding("ledger", Mark::Warning, "the ledger forgets everything when the warden ends");
        }
        StoreSettings::Redis(redis) => return look_at_redis(redis).await,
    };
    if !path.join("ledger.redb").exists() {
        return match writable_ancestor(path) {
            Ok(()) => {
                finding("ledger", Mark::Ok, format!("{} will be made at the first start", path.display()))
            }
            Err(says) => finding("ledger", Mark::Failed, says),
        };
    }
    match count(settings, clock).await {
        Ok(says) => finding("ledger", Mark::Ok, says),
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse(_))) => {
            finding("ledger", Mark::Ok, format!("{} is in use: a warden runs on it", path.display()))
        }
        Err(error) => finding("ledger", Mark::Failed, format!("{error:#}")),
    }
}

/// Whether a ledger can be trusted to this Redis; nothing is written there.
async fn look_at_redis(settings: &RedisSettings) -> Finding {
    match Redis::open(settings, Time::OfRedis).await {
        Ok(_) => finding("ledger", Mark::Ok, format!("Redis can keep the ledger {}", settings.ledger)),
        Err(error) => finding("ledger", Mark::Failed, error.to_string()),
    }
}

async fn count(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<String> {
    let store = open_store(&settings.store, clock).await?;
    let opened = ledger::Settings { upstream: settings.cube.name.clone(), timing: Timing::default() };
    let ledger = Ledger::open(store, opened, Chance::from_os()).await?;
    let counts = ledger.counts(&[]).await?;
    Ok(format!("ledger {} can be opened; {} slots are held", ledger.id(), counts.all.held()))
}

/// Whether the directory can be made where it is wanted.
fn writable_ancestor(path: &Path) -> Result<(), String> {
    let there = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    match std::fs::metadata(there) {
        Ok(found) if !found.is_dir() => {
            Err(format!("{} is not a directory: set store.path to another", there.display()))
        }
        Ok(found) if found.permissions().readonly() => {
            Err(format!("{} cannot be written: give it to the user that runs the warden", there.display()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("look at {}: {error}", there.display())),
    }
}

/// Ways by which tenants may reach what they should not, as far as it can be seen from here.
pub(super) fn exposed(settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    let admin = &settings.admin;
    if admin.token.is_none() && !admin.listen.ip().is_loopback() {
        found.push(format!(
            "the operator's view listens on {} and asks for no token: set admin.token_env, or listen on loopback",
            admin.listen
        ));
    }
    let base = &settings.cube.base;
    let host = base.host().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    if !here {
        found.push(format!(
            "Cube is reached at {base}: whoever else can reach it there goes round the warden; let only the warden through"
        ));
        return found;
    }
    let port = base.port_u16().unwrap_or(80);
    for ip in ways_round::listening_on(port) {
        found.push(format!(
            "CubeAPI's port {port} listens on {ip}, beyond loopback: tenants can go round the warden; set CUBE_API_BIND=127.0.0.1:{port}"
        ));
    }
    let (port, master) = ways_round::cube_master();
    for ip in master {
        found.push(format!(
            "CubeMaster's port {port}, which asks nobody for a key, listens on {ip}: let only the compute nodes through"
        ));
    }
    found
}

/// That nothing is limited is the default that breaks nobody, and worth knowing.
fn unlimited(settings: &Settings) -> Option<Finding> {
    let calls = &settings.calls;
    let none = calls.admission.global_limit.is_none()
        && calls.policies.named().all(|(_, policy)| policy.limit.is_none());
    none.then(|| {
        finding(
            "limits",
            Mark::Warning,
            "no bucket has a limit, and there is no global one: nothing is refused",
        )
    })
}
