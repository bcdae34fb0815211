//! `/v1/admin/breaker`: breakers, lanes, backlog and recovery of the write path, as they stand; and the same as gauges.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::rules::breaker::State;
use crate::rules::lanes::Lane;
use crate::rules::write_path::View;
use crate::telemetry::WriteGauges;

impl Admin {
    pub(super) fn breaker(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        Query::read(query, &[])?;
        let view = self.outlook.write_path();
        let lanes = Lane::ALL.map(|lane| {
            let numbers = json!({
                "in_flight": view.in_use[lane.index()],
                "waiting": view.waiting[lane.index()],
            });
            (lane.name().to_owned(), numbers)
        });
        let body = json!({
            "create": shown(&view.creates),
            "delete": shown(&view.deletes),
            "limit": view.limit,
            "lanes": lanes.into_iter().collect::<Map<String, Value>>(),
            "recovering": view.recovering,
            "credit": view.credit,
            "backlog": view.backlog,
            "deletes_last_minute": view.drained,
        });
        Ok(answers::json(StatusCode::OK, &body))
    }
}

/// One breaker: where it stands, and since or until when.
fn shown(state: &State) -> Value {
    match state {
        // At the start nothing has happened yet.
        State::Closed { since } if since.0 == 0 => json!({ "state": "closed" }),
        State::Closed { since } => json!({ "state": "closed", "since": since.to_string() }),
        State::Open { due, .. } => json!({ "state": "open", "probe_due": due.to_string() }),
        State::HalfOpen { since } => json!({ "state": "half-open", "probing_since": since.to_string() }),
    }
}

/// The write path for the metrics. Lanes stand in one order in both; a test holds them to it.
pub(super) fn gauges(view: &View) -> WriteGauges {
    let breakers = [view.creates, view.deletes].map(|state| match state {
        State::Closed { .. } => 0,
        State::HalfOpen { .. } => 1,
        State::Open { .. } => 2,
    });
    WriteGauges {
        breakers,
        limit: view.limit,
        in_flight: view.in_use,
        waiting: view.waiting,
        backlog: view.backlog,
        drained: view.drained,
        recovering: view.recovering,
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::lanes::Lane;
    use crate::telemetry::WriteLane;

    #[test]
    fn the_rules_and_the_metrics_know_the_same_lanes_in_the_same_order() {
        assert_eq!(
            Lane::ALL.map(Lane::name).to_vec(),
            WriteLane::ALL.iter().map(|lane| lane.name()).collect::<Vec<_>>()
        );
    }
}
