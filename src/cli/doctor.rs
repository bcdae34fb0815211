//! `cubewarden doctor`: is this deployment safe to enforce? Each finding has a severity and a remedy.
//!
//! Looked at: the configuration, Cube, the ledger's store, and the warden that runs (if one does). Must stay true: it changes
//! nothing anywhere; its questions to Cube that are writes name the sandbox of all zeros, which does not exist.

mod configured;
mod cube;
mod durable;
mod running;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::reach::Reaching;
use super::screen::{self, plain};
use super::{check, load, say};
use crate::time::{Clock, WallClock};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Somebody will be surprised one day.
    Warning,
    /// Enforcing would do harm, or would not hold.
    Danger,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    about: &'static str,
    severity: Severity,
    says: String,
    /// What to do; nothing for what is well.
    remedy: Option<String>,
}

fn well(about: &'static str, says: impl Into<String>) -> Finding {
    Finding { about, severity: Severity::Ok, says: says.into(), remedy: None }
}

fn ill(
    severity: Severity,
    about: &'static str,
    says: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding { about, severity, says: says.into(), remedy: Some(remedy.into()) }
}

/// Looks at everything, and says what it found.
pub(super) fn run(file: Option<&Path>, reaching: &Reaching) -> anyhow::Result<ExitCode> {
    let settings = load(file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let warden = reaching.open()?;
    let findings = runtime.context("start the runtime")?.block_on(async {
        let mut findings = configured::look(&settings);
        let round = "bind CubeAPI and CubeMaster to loopback, or let a firewall keep all but the warden out";
        let exposed = check::exposed(&settings).into_iter();
        findings.extend(exposed.map(|says| ill(Severity::Danger, "ways round", says, round)));
        findings.extend(cube::look(&settings, &clock).await?);
        findings.extend(durable::look(&settings.store, &clock).await);
        findings.extend(running::look(&warden, &settings.calls.policies).await);
        anyhow::Ok(findings)
    })?;
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    say(&if reaching.json { report(&findings, worst) } else { in_words(&findings, worst) })?;
    Ok(if worst == Severity::Danger { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(findings: &[Finding], worst: Severity) -> String {
    let findings = findings.iter().map(|finding| {
        json!({
            "about": finding.about,
            "severity": finding.severity.name(),
            "message": finding.says,
            "remedy": finding.remedy,
        })
    });
    let findings: Vec<Value> = findings.collect();
    screen::json(&json!({ "safe_to_enforce": worst < Severity::Danger, "findings": findings }))
}

/// The worst first, and each with what to do under it.
fn in_words(findings: &[Finding], worst: Severity) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut text = String::new();
    for finding in sorted {
        text.extend([format!("{:8} {}: {}\n", finding.severity.name(), finding.about, plain(&finding.says))]);
        text.extend(finding.remedy.as_ref().map(|remedy| format!("         -> {}\n", plain(remedy))));
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    text.extend([match worst {
        Severity::Danger => {
            format!("\nnot safe to enforce: {} dangers to mend first\n", count(Severity::Danger))
        }
        Severity::Warning => format!("\nsafe to enforce, with {} warnings\n", count(Severity::Warning)),
        Severity::Ok | Severity::Note => "\nsafe to enforce\n".to_owned(),
    }]);
    text
}
