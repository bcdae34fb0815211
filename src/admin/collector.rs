//! `/v1/admin/collector`: who collects, what was found, what is kept and what it costs. `/v1/admin/plan`: what the next sweep
//! ends, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::Bucket;
use crate::rules::collector::memory::Sweep;
use crate::rules::collector::plan::Item;
use crate::rules::collector::report::{self, Held, Kept, Prices, RETENTIONS, Report};
use crate::rules::listing::Verdict;
use crate::time::UnixMillis;

/// How the collector of this warden fares.
#[derive(Clone, Debug, Default)]
pub struct Collecting {
    /// Whether this warden leads.
    pub leads: bool,
    /// Whether ends are carried out.
    pub carried_out: bool,
    /// What the last cycle found; `None` if this warden had none.
    pub report: Option<Arc<Report>>,
    /// What an hour costs.
    pub prices: Prices,
}

impl Admin {
    /// Who collects, and what was found.
    pub(super) async fn collector(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        Query::read(query, &[])?;
        let state = self.ledger.collector_state().await?;
        let collecting = self.outlook.collecting();
        let outages = state.outages.as_slice().iter();
        let outages = outages.map(|one| json!({ "from": one.from.to_string(), "to": one.to.to_string() }));
        let mut body = json!({
            "leader": state.leader.as_ref().map(ToString::to_string),
            "leads": collecting.leads,
            "carried_out": collecting.carried_out,
            "cycle": state.cycle,
            "last_cycle": at(state.at),
            "last_trusted": at(state.trusted),
            "suspect_in_a_row": state.suspect,
            "hosts": state.hosts,
            "outages": outages.collect::<Vec<_>>(),
            "last_sweep": sweep(&state.sweep),
            "found": null,
        });
        if let Some(report) = &collecting.report {
            body["found"] = found(report, collecting.prices);
        }
        Ok(answers::json(StatusCode::OK, &body))
    }

    /// What the next sweep ends unless something changes.
    pub(super) async fn plan(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        Query::read(query, &[])?;
        self.ledger.now().await?;
        let collecting = self.outlook.collecting();
        let report = collecting.report.unwrap_or_default();
        let body = json!({
            "leads": collecting.leads,
            "carried_out": collecting.carried_out,
            "at": (report.at != UnixMillis::default()).then(|| report.at.to_string()),
            "ends": report.next.iter().map(end).collect::<Vec<_>>(),
        });
        Ok(answers::json(StatusCode::OK, &body))
    }
}

fn at(at: Option<UnixMillis>) -> Option<String> {
    at.map(|at| at.to_string())
}

fn sweep(sweep: &Sweep) -> Value {
    json!({
        "at": at(sweep.at),
        "planned": sweep.planned,
        "condemned": sweep.condemned,
        "kept": sweep.kept,
        "later": sweep.later,
    })
}

fn found(report: &Report, prices: Prices) -> Value {
    let kept: BTreeMap<&Bucket, &Kept> = report.kept.iter().collect();
    json!({
        "at": report.at.to_string(),
        "verdict": report.verdict.map(verdict),
        "colours": report.colours,
        "drift": {
            "charged_not_shown": report.drift.not_shown,
            "shown_not_charged": report.drift.not_charged,
        },
        "kept": kept.into_iter().map(|(bucket, kept)| shown_kept(bucket, kept, prices)).collect::<Vec<_>>(),
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Trusted => "trusted",
        Verdict::Suspect(_) => "suspect",
        Verdict::Lies => "lies",
    }
}

fn shown_kept(bucket: &Bucket, kept: &Kept, prices: Prices) -> Value {
    let frees: serde_json::Map<String, Value> =
        RETENTIONS.iter().map(|(name, length)| ((*name).to_owned(), kept.freed_by(*length).into())).collect();
    let Held { count, cpu_milli, memory_mib, cpu_milli_seconds, memory_mib_seconds } = kept.held;
    json!({
        "bucket": bucket.to_string(),
        "count": count,
        "reasons": kept.by_reason,
        "vcpu": decimal(u128::from(cpu_milli) / 10, 2),
        "memory_gb": decimal(u128::from(memory_mib) * 100 / 1024, 2),
        "vcpu_hours": decimal(report::hundredths_of_hours(cpu_milli_seconds, 1000), 2),
        "memory_gb_hours": decimal(report::hundredths_of_hours(memory_mib_seconds, 1024), 2),
        "cost": kept.held.cost(prices).map(|millionths| decimal(millionths / 10_000, 2)),
        "oldest_seconds": report::seconds(kept.oldest),
        "retention_frees": frees,
        "retention_that_ends_the_first_below_seconds": kept.ends_first_below().map(report::seconds),
        "retention_that_ends_all_below_seconds": kept.ends_all_below().map(report::seconds),
    })
}

/// A number with so many decimals, as text: JSON's own numbers would be rounded by whoever reads them.
fn decimal(number: u128, decimals: u32) -> String {
    let unit = 10_u128.pow(decimals);
    let width = usize::try_from(decimals).unwrap_or(0);
    format!("{}.{:0width$}", number / unit, number % unit)
}

fn end(item: &Item) -> Value {
    json!({
        "marker": item.marker.as_str(),
        "sandbox_id": item.sandbox.as_str(),
        "bucket": item.bucket.to_string(),
        "generation": item.mark.generation.0,
        "reason": item.reason.name(),
        "lasted_seconds": report::seconds(item.lasted),
        "allowed_seconds": report::seconds(item.allowed),
        "marked_at": item.mark.since.to_string(),
        "confirmations": item.mark.confirmed,
    })
}
