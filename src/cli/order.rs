//! Commands that order a running warden: `kill`, `hold`, `unhold`, `release`, `drain`.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::reach::{Reach, quoted};
use super::screen::{self, cell};

/// What ends, and by what right.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("right").required(true).args(["generation", "force"])))]
pub(super) struct Kill {
    /// The sandbox (or marker) that ends.
    pub(super) sandbox: String,
    /// Its current generation, as `ls` and `explain` show it: nothing ends if it has had another holder meanwhile.
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    /// Whoever holds it now.
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why; it stands in the decision log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// What is kept, and why.
#[derive(Args)]
#[group(skip)]
pub(super) struct Hold {
    /// The sandbox (or marker) that is kept.
    sandbox: String,
    /// Why; it stands in the decision log.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// What is released for judgement.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("what").required(true).args(["sandbox", "bucket"])))]
pub(super) struct Release {
    /// The sandbox (or marker).
    sandbox: Option<String>,
    /// Everything in this bucket that was found, not made through the warden.
    #[arg(long, value_name = "NAMESPACE/ENV")]
    bucket: Option<String>,
}

/// The answer to an order: as it came, or in one sentence.
fn told(answer: &Value, json: bool, sentence: String) -> String {
    if json { screen::json(answer) } else { sentence + "\n" }
}

fn name(answer: &Value) -> String {
    let id = answer.get("sandbox_id").filter(|id| !id.is_null()).or_else(|| answer.get("marker"));
    screen::plain(&cell(id))
}

pub(super) async fn kill(warden: &Reach, kill: &Kill, json: bool) -> anyhow::Result<String> {
    let body = json!({ "generation": kill.generation, "force": kill.force, "reason": kill.reason });
    let answer = warden.post(&format!("/v1/admin/kill/{}", quoted(&kill.sandbox)), &body).await?;
    let sentence = format!(
        "the end of {} is written down and is carried out; `explain` tells how far it is",
        name(&answer)
    );
    Ok(told(&answer, json, sentence))
}

pub(super) async fn hold(warden: &Reach, hold: &Hold, json: bool) -> anyhow::Result<String> {
    let path = format!("/v1/admin/hold/{}", quoted(&hold.sandbox));
    let answer = warden.post(&path, &json!({ "reason": hold.reason })).await?;
    let sentence = format!("{} is kept until `unhold`; its client can still end it", name(&answer));
    Ok(told(&answer, json, sentence))
}

pub(super) async fn unhold(warden: &Reach, sandbox: &str, json: bool) -> anyhow::Result<String> {
    let answer = warden.post(&format!("/v1/admin/unhold/{}", quoted(sandbox)), &json!({})).await?;
    let already = answer["result"] == "already_so";
    let sentence = if already { "nobody kept it" } else { "is kept by no operator any more" };
    Ok(told(&answer, json, format!("{}: {sentence}", name(&answer))))
}

pub(super) async fn release(warden: &Reach, release: &Release, json: bool) -> anyhow::Result<String> {
    let path = match (&release.sandbox, &release.bucket) {
        (Some(sandbox), _) => format!("/v1/admin/release/{}", quoted(sandbox)),
        (None, bucket) => {
            format!("/v1/admin/release?bucket={}", quoted(bucket.as_deref().unwrap_or_default()))
        }
    };
    let answer = warden.post(&path, &json!({})).await?;
    let sentence = match answer.get("count").and_then(Value::as_u64) {
        Some(count) => format!("{count} sandboxes may be judged from now on"),
        None if answer["result"] == "already_so" => format!("{}: it may be judged already", name(&answer)),
        None => format!("{}: it may be judged from now on", name(&answer)),
    };
    Ok(told(&answer, json, sentence))
}

pub(super) async fn drain(warden: &Reach, json: bool) -> anyhow::Result<String> {
    let answer = warden.post("/v1/admin/drain", &json!({})).await?;
    let sentence = "the warden is not ready any more, and whoever waited for a slot was told to try elsewhere; it serves \
                    on until SIGTERM";
    Ok(told(&answer, json, sentence.to_owned()))
}
