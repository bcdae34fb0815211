//! Commands that look at a running warden: `ls`, `explain`, `plan`, `sweep --plan`, `decisions`, `shadow`.

use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::reach::{Reach, quoted};
use super::screen::{self, cell, table, table_of};
use crate::time::{Clock as _, UnixMillis, WallClock, parse_rfc3339};

/// Sandboxes of one page.
const PAGE: usize = 1000;
/// Between two looks at the log.
const FOLLOW: Duration = Duration::from_secs(1);

/// What is listed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Listed {
    /// Limits, and what holds the slots.
    Buckets,
    /// What holds a slot, one by one.
    Sandboxes,
}

/// Which sandboxes are listed.
#[derive(Args, Default)]
#[group(skip)]
pub(super) struct Which {
    /// In this bucket only.
    #[arg(long, value_name = "NAMESPACE/ENV")]
    bucket: Option<String>,
    /// Of this owner only.
    #[arg(long, value_name = "OWNER_ID")]
    owner: Option<String>,
    /// In this state only: reserved, dispatched, ambiguous, live, killing, quarantined, paused.
    #[arg(long)]
    state: Option<String>,
}

/// Which decisions are shown.
#[derive(Args)]
#[group(skip)]
pub(super) struct Decided {
    /// About this bucket.
    #[arg(long, value_name = "NAMESPACE/ENV")]
    bucket: Option<String>,
    /// About this sandbox.
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// About this owner.
    #[arg(long, value_name = "OWNER_ID")]
    owner: Option<String>,
    /// Of this kind: admitted, live, refused, condemned, gone, held, ...
    #[arg(long)]
    kind: Option<String>,
    /// By this request (x-request-id).
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Not older than this: a length of time such as 2h, or a time such as 2026-05-01T00:00:00Z.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// So many, the newest.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Go on as decisions are made.
    #[arg(long, short)]
    follow: bool,
}

/// `?name=value&..` of those that were given.
fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let given = pairs.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", quoted(value?))));
    let given: Vec<String> = given.collect();
    if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
}

/// Members of an answer that is a list.
fn items<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn row<const N: usize>(object: &Value, names: [&str; N]) -> [String; N] {
    names.map(|name| cell(object.pointer(&format!("/{}", name.replace('.', "/")))))
}

/// `cubewarden ls`.
pub(super) async fn ls(warden: &Reach, listed: Listed, which: &Which, json: bool) -> anyhow::Result<String> {
    match listed {
        Listed::Buckets => {
            let answer = warden.get("/v1/admin/buckets").await?;
            Ok(if json { screen::json(&answer) } else { buckets(&answer) })
        }
        Listed::Sandboxes => {
            let sandboxes = sandboxes(warden, which).await?;
            if json {
                return Ok(screen::json(&json!({ "sandboxes": sandboxes })));
            }
            let names =
                ["sandbox_id", "bucket", "owner_id", "state", "colour", "reason", "last_sign_at", "deadline"];
            let rows: Vec<_> = sandboxes.iter().map(|sandbox| row(sandbox, names)).collect();
            let heads = ["SANDBOX", "BUCKET", "OWNER", "STATE", "COLOUR", "REASON", "LAST SIGN", "DEADLINE"];
            Ok(table(heads, &rows))
        }
    }
}

fn buckets(answer: &Value) -> String {
    let states = [
        "limit",
        "held",
        "entries.live",
        "paused",
        "entries.ambiguous",
        "entries.killing",
        "entries.quarantined",
        "waiting",
    ];
    let named = |name: String, bucket: &Value| {
        let mut cells = vec![name];
        cells.extend(row(bucket, states));
        <[String; 9]>::try_from(cells).unwrap_or_default()
    };
    let mut rows: Vec<[String; 9]> = Vec::new();
    for bucket in items(answer, "buckets") {
        let [namespace, env] = row(bucket, ["namespace", "env"]);
        rows.push(named(format!("{namespace}/{env}"), bucket));
    }
    for (name, title) in [("other", "(other buckets)"), ("all", "(all)")] {
        rows.extend(answer.get(name).map(|whole| named(title.to_owned(), whole)));
    }
    let heads =
        ["BUCKET", "LIMIT", "HELD", "LIVE", "PAUSED", "AMBIGUOUS", "KILLING", "QUARANTINED", "WAITING"];
    let foreign = answer.get("foreign").and_then(Value::as_u64).unwrap_or(0);
    let note = if foreign == 0 {
        String::new()
    } else {
        format!("{foreign} sandboxes at this Cube are another ledger's or nobody's\n")
    };
    table(heads, &rows) + &note
}

/// Every page of them.
pub(super) async fn sandboxes(warden: &Reach, which: &Which) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let limit = PAGE.to_string();
        let query = query([
            ("limit", Some(limit.as_str())),
            ("bucket", which.bucket.as_deref()),
            ("owner", which.owner.as_deref()),
            ("state", which.state.as_deref()),
            ("after", after.as_deref()),
        ]);
        let page = warden.get(&format!("/v1/admin/sandboxes{query}")).await?;
        all.extend(items(&page, "sandboxes").iter().cloned());
        match page.get("next_after").and_then(Value::as_str) {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(all),
        }
    }
}

/// `cubewarden explain`.
pub(super) async fn explain(warden: &Reach, name: &str, json: bool) -> anyhow::Result<String> {
    let Some(answer) = warden.find(&format!("/v1/admin/explain/{}", quoted(name))).await? else {
        bail!(
            "neither the ledger nor its log knows {}: wanted a sandbox id, an owner id, a marker or a request id",
            screen::plain(name)
        );
    };
    if json {
        return Ok(screen::json(&answer));
    }
    let mut text = screen::lines(answer.get("text").and_then(Value::as_str).unwrap_or_default());
    if !items(&answer, "decisions").is_empty() {
        text.push('\n');
        text.push_str(&log(items(&answer, "decisions")));
    }
    Ok(text)
}

/// `cubewarden plan`.
pub(super) async fn plan(warden: &Reach, json: bool) -> anyhow::Result<String> {
    let Some(answer) = warden.find("/v1/admin/plan").await? else {
        bail!("this warden shows no plan: its version has no collector");
    };
    Ok(if json { screen::json(&answer) } else { planned(&answer) })
}

fn planned(answer: &Value) -> String {
    let members = ["items", "ends", "plan"].into_iter().map(|name| items(answer, name));
    let planned = members.into_iter().find(|items| !items.is_empty()).unwrap_or_default();
    let mut text = if planned.is_empty() {
        "the next sweep would end nothing\n".to_owned()
    } else {
        format!("the next sweep would end {}:\n{}", planned.len(), table_of(planned))
    };
    if let Some(later) = answer.get("later").and_then(Value::as_u64).filter(|later| *later > 0) {
        text.extend([format!("{later} more wait for later sweeps (max_kills_per_cycle)\n")]);
    }
    text
}

/// `cubewarden sweep --plan`: how the collector fares, and what it would do.
pub(super) async fn sweep(warden: &Reach, json: bool) -> anyhow::Result<String> {
    let (Some(collector), Some(plan)) =
        (warden.find("/v1/admin/collector").await?, warden.find("/v1/admin/plan").await?)
    else {
        bail!("this warden shows no collector: its version has none");
    };
    if json {
        return Ok(screen::json(&json!({ "collector": collector, "plan": plan })));
    }
    let scalars = collector
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_object() && !value.is_array());
    let rows: Vec<_> = scalars.map(|(name, value)| [name.clone(), cell(Some(value))]).collect();
    Ok(format!("{}\n{}", table(["COLLECTOR", ""], &rows), planned(&plan)))
}

/// `cubewarden decisions`; with `follow` it ends only with the reader.
pub(super) async fn decisions(
    warden: &Reach,
    decided: &Decided,
    json: bool,
    say: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let since = decided.since.as_deref().map(when).transpose()?;
    let path = |place: [(&str, Option<&str>); 2], limit: &str| {
        let about = [
            ("limit", Some(limit)),
            ("bucket", decided.bucket.as_deref()),
            ("sandbox", decided.sandbox.as_deref()),
            ("owner", decided.owner.as_deref()),
            ("kind", decided.kind.as_deref()),
            ("request", decided.request.as_deref()),
            ("since", since.as_deref()),
        ];
        format!("/v1/admin/decisions{}", query(place.into_iter().chain(about)))
    };
    let show = |records: &[Value]| if json { each(records) } else { log(records) };
    let limit = decided.limit.to_string();
    let answer = warden.get(&path([("newest", Some("true")), ("after", None)], &limit)).await?;
    say(&show(items(&answer, "decisions")))?;
    let last = |answer: &Value| {
        let records = items(answer, "decisions");
        answer.get("next_after").and_then(Value::as_u64).or_else(|| records.last()?.get("sequence")?.as_u64())
    };
    let mut after = last(&answer).unwrap_or(0);
    if !decided.follow {
        return Ok(());
    }
    loop {
        WallClock.sleep(FOLLOW).await;
        let from = after.to_string();
        let answer = warden.get(&path([("newest", None), ("after", Some(&from))], "1000")).await?;
        let records = items(&answer, "decisions");
        if !records.is_empty() {
            // Without the heads, which stand above.
            let text = show(records);
            say(if json { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) })?;
        }
        after = last(&answer).unwrap_or(after);
    }
}

/// One JSON object on a line each.
fn each(records: &[Value]) -> String {
    records.iter().map(screen::json_line).collect()
}

fn log(records: &[Value]) -> String {
    let names =
        ["at", "decision", "reason", "bucket", "sandbox_id", "owner_id", "actor", "request_id", "policy"];
    let rows: Vec<_> = records.iter().map(|record| row(record, names)).collect();
    table(["AT", "DECISION", "REASON", "BUCKET", "SANDBOX", "OWNER", "ACTOR", "REQUEST", "POLICY"], &rows)
}

/// A time, or a length of time before now.
fn when(text: &str) -> anyhow::Result<String> {
    let at = parse_rfc3339(text).or_else(|| {
        let back = humantime::parse_duration(text).ok()?;
        Some(WallClock.now().minus(back))
    });
    match at {
        Some(at) => Ok(UnixMillis::to_string(&at)),
        None => bail!(
            "--since {}: wanted a length of time such as 2h, or a time such as 2026-05-01T00:00:00Z",
            screen::plain(text)
        ),
    }
}

/// `cubewarden shadow`.
pub(super) async fn shadow(warden: &Reach, json: bool) -> anyhow::Result<String> {
    let report = warden.get("/v1/admin/shadow").await?;
    if json {
        return Ok(screen::json(&report));
    }
    let since = cell(report.get("since"));
    let mut text = if since == "-" {
        "the log holds nothing that enforcing would have done otherwise\n".to_owned()
    } else {
        format!("since {} enforcing would have\n", screen::plain(&since))
    };
    for (name, does) in [("would_refuse", "refused"), ("would_change", "changed"), ("would_end", "ended")] {
        let total = cell(report.pointer(&format!("/{name}/total")));
        let reasons = report.pointer(&format!("/{name}/by_reason")).and_then(Value::as_object);
        let reasons =
            reasons.into_iter().flatten().map(|(reason, count)| format!("{count} {}", screen::plain(reason)));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        text.extend([format!("  {does:8} {total}  {reasons}\n")]);
    }
    let wrongly = report.get("would_end_wrongly").and_then(Value::as_u64).unwrap_or(0);
    text.extend([format!("of those ends {wrongly} would have been wrong: the sandbox was used again\n")]);
    if wrongly > 0 {
        text.push_str(&table_of(items(&report, "wrong")));
    }
    if report.get("enforces").and_then(Value::as_bool) == Some(true) {
        text.push_str("this warden enforces; the numbers are from before\n");
    }
    Ok(text)
}
