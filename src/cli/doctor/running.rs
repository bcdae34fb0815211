//! What the warden that runs has seen: sandboxes without an owner, without an end, kept for ever, made round it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Severity::{Danger, Note, Warning};
use super::{Finding, ill, well};
use crate::cli::look::{self, Which};
use crate::cli::reach::Reach;
use crate::ids::Bucket;
use crate::rules::policy::Policies;

pub(super) async fn look(warden: &Reach, policies: &Policies) -> Vec<Finding> {
    let ready = match warden.look("/readyz").await {
        Ok(ready) => ready,
        Err(error) => {
            let remedy = "start it, and ask again: what it has seen is half of the answer";
            return vec![ill(Note, "warden", format!("{error:#}"), remedy)];
        }
    };
    let mut found = vec![readiness(&ready)];
    match look::sandboxes(warden, &Which::default()).await {
        Ok(sandboxes) => found.extend(judge(&sandboxes, policies)),
        Err(error) => found.push(ill(Warning, "sandboxes", format!("{error:#}"), "mend that, and ask again")),
    }
    if let Ok(buckets) = warden.get("/v1/admin/buckets").await {
        found.extend(foreign(&buckets));
    }
    found
}

fn readiness(ready: &Value) -> Finding {
    if ready["ready"] == true {
        return well("warden", "it runs and is ready");
    }
    let text = |pointer: &str| ready.pointer(pointer).and_then(Value::as_str);
    let why = text("/ledger/error").or(text("/listing_off"));
    let why = why.unwrap_or(if ready["draining"] == true {
        "it is being drained"
    } else {
        "Cube does not answer it"
    });
    ill(Danger, "warden", format!("it runs and is not ready: {why}"), "look at its log")
}

fn foreign(buckets: &Value) -> Option<Finding> {
    let foreign = buckets.get("foreign").and_then(Value::as_u64).filter(|foreign| *foreign > 0)?;
    let says = format!(
        "{foreign} sandboxes at this Cube are another ledger's or nobody's: never touched, never counted"
    );
    Some(ill(Note, "foreign", says, "set adopt.bucket if they are to be counted; else nothing"))
}

/// What of the sandboxes would surprise whoever enforces.
fn judge(sandboxes: &[Value], policies: &Policies) -> Vec<Finding> {
    let text = |sandbox: &Value, name: &str| sandbox.get(name).and_then(Value::as_str).map(str::to_owned);
    let count = |fits: &dyn Fn(&Value) -> bool| sandboxes.iter().filter(|sandbox| fits(sandbox)).count();
    let live = |sandbox: &Value| sandbox["state"] == "live";
    let paused = |sandbox: &Value| !sandbox["paused_since"].is_null();
    // `namespace.env.-.<marker>`: neither project nor run was said.
    let nobodys = count(&|sandbox| {
        text(sandbox, "owner_id").is_some_and(|owner| owner.split('.').nth_back(1) == Some("-"))
    });
    let endless = count(&|sandbox| live(sandbox) && !paused(sandbox) && sandbox["deadline"].is_null());
    let found = count(&|sandbox| sandbox["origin"] == "imported" && sandbox["released_at"].is_null());
    let round = count(&|sandbox| sandbox["origin"] == "round");
    let stuck = count(&|sandbox| sandbox["state"] == "quarantined");
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    for sandbox in sandboxes.iter().filter(|sandbox| paused(sandbox)) {
        let Some(bucket) = text(sandbox, "bucket").and_then(|bucket| Bucket::parse(&bucket).ok()) else {
            continue;
        };
        if policies.of(&bucket).retention.is_none() {
            *kept.entry(bucket.to_string()).or_default() += 1;
        }
    }
    let findings = [
        (
            nobodys,
            Warning,
            "owners",
            "sandboxes have no owner but their own marker",
            "let clients say project and run (X-Cube-Project, X-Cube-Run, or the metadata keys of [identity])",
        ),
        (
            endless,
            Warning,
            "timeouts",
            "running sandboxes have no end",
            "set default_timeout and max_timeout; end them by `cubewarden kill`",
        ),
        (
            found,
            Note,
            "imports",
            "sandboxes were found, not made here, and are never judged",
            "`cubewarden release` them when you know whose they are",
        ),
        (
            round,
            Danger,
            "ways round",
            "sandboxes were made round the warden",
            "find who reaches Cube directly, and close that way",
        ),
        (
            stuck,
            Warning,
            "quarantine",
            "sandboxes cannot be killed, and hold their slots",
            "look at Cube's host; `cubewarden explain` tells what was tried",
        ),
    ];
    let findings = findings.into_iter().filter(|(count, ..)| *count > 0);
    let mut said: Vec<Finding> = findings
        .map(|(count, severity, about, says, remedy)| ill(severity, about, format!("{count} {says}"), remedy))
        .collect();
    said.extend(kept.into_iter().map(|(bucket, count)| {
        let says = format!("{count} paused sandboxes in {bucket} are kept for ever, and hold their slots");
        ill(
            Warning,
            "retention",
            says,
            format!("set retention for {bucket}; `cubewarden explain` says what it would collect"),
        )
    }));
    if said.is_empty() {
        said.push(well("sandboxes", format!("{} hold a slot, and none would surprise", sandboxes.len())));
    }
    said
}
