//! Explanations: a sandbox, a bucket or a piece of the log in a few words, and what is said of it.

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::ids::{
    Bucket, Generation, InstanceId, LeaseId, Marker, OperationId, OwnerId, SandboxId, UpstreamName,
};
use cubewarden::rules::entry::{
    Activity, Actor, Entry, Hold, Keeper, Kill, Lease, Operation, Origin, Proof, Shape, State, Timing,
};
use cubewarden::rules::explain::{Facts, Fullness, Past, of_bucket, of_entry, of_past};
use cubewarden::rules::policy::BucketPolicy;
use cubewarden::time::UnixMillis;

use super::expect;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// `name=value` on lines of `what name=value ..`; texts have `_` for spaces.
struct Line<'a> {
    what: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let what = words.next().unwrap();
        Self { what, values: words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect() }
    }

    fn span(&self, name: &str) -> Option<Duration> {
        self.values.get(name).map(|text| humantime::parse_duration(text).unwrap())
    }

    /// `21h` is that long ago, `+5m` is ahead.
    fn at(&self, name: &str) -> Option<UnixMillis> {
        self.values.get(name).map(|text| match text.strip_prefix('+') {
            Some(ahead) => NOW.plus(humantime::parse_duration(ahead).unwrap()),
            None => NOW.minus(humantime::parse_duration(text).unwrap()),
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|text| text.replace('_', " "))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name).map(|text| text.parse().unwrap())
    }
}

fn entry(line: &Line<'_>) -> Entry {
    let kill = |actor| Kill { attempts: 3, ..Kill::new(actor, line.at("since").unwrap()) };
    let state = match line.values["state"] {
        "reserved" => State::Reserved,
        "running" => State::Live(Activity::Running),
        "paused" => State::Live(Activity::Paused(line.at("since").unwrap())),
        "ambiguous" => State::Ambiguous { misses: 1 },
        "killing" => State::Killing(kill(Actor::Client)),
        "quarantined" => State::Quarantined(kill(Actor::Collector)),
        "gone" => State::Gone { at: line.at("since").unwrap(), proof: Proof::GetNotFound, owed: false },
        other => panic!("no such state: {other}"),
    };
    let seen = line.at("seen").unwrap_or(NOW.minus(Duration::from_secs(60)));
    let lease = line.values.get("lease").map(|keeper| {
        let keeper = if *keeper == "beats" { Keeper::Heartbeats } else { Keeper::Calls };
        Lease::new(LeaseId::new("lease-1").unwrap(), keeper, None, seen)
    });
    let operations = line.at("call").map(|until| Operation {
        id: OperationId::new(&"c".repeat(16)).unwrap(),
        kind: "connect".to_owned(),
        until,
    });
    Entry {
        marker: Marker::new(&"b".repeat(32)).unwrap(),
        upstream: UpstreamName::new("cube").unwrap(),
        bucket: Bucket::parse("a/prod").unwrap(),
        owner: OwnerId::new("a.prod.p.r").unwrap(),
        tenant: None,
        origin: if line.values.contains_key("found") { Origin::Imported } else { Origin::Created },
        instance: InstanceId::new(&"d".repeat(16)).unwrap(),
        generation: Generation(seen.0),
        holders: line.number("holders").map_or(1, |holders| u32::try_from(holders).unwrap()),
        claims: 1,
        lease,
        asked_for: None,
        incarnation: 0,
        hold: line.text("hold").map(|reason| Hold { since: seen, reason }),
        released: None,
        sandbox: Some(SandboxId::new(&"a".repeat(32)).unwrap()),
        template: "tpl".to_owned(),
        shape: Shape::default(),
        metadata: Some("{\"secret\":\"never shown\"}".to_owned()),
        claim: None,
        answer: None,
        asked: seen,
        dispatched: Some(seen),
        first_seen: Some(seen),
        last_sign: line.at("sign").unwrap_or(seen),
        deadline: line.at("deadline"),
        claim_until: None,
        operations: operations.into_iter().collect(),
        state,
        due: None,
    }
}

fn past(line: &Line<'_>) -> Past {
    Past {
        at: line.at("at"),
        kind: line.values["kind"].to_owned(),
        why: if line.values.contains_key("why") {
            line.text("why").unwrap()
        } else {
            line.values["code"].to_owned()
        },
        actor: line.text("actor"),
        message: line.text("message"),
        bucket: line.text("bucket"),
        request: line.text("request"),
        policy: line.text("policy"),
        limit: line.number("limit"),
        held: line.number("held"),
    }
}

fn explained(given: &str) -> String {
    let lines: Vec<Line<'_>> = given.lines().filter(|line| !line.starts_with('#')).map(Line::read).collect();
    let find = |what: &str| lines.iter().find(|line| line.what == what);
    let log: Vec<Past> = lines.iter().filter(|line| line.what == "log").map(past).collect();
    if let Some(line) = find("bucket") {
        let full = Fullness {
            held: line.number("held").unwrap(),
            paused: line.number("paused").unwrap_or(0),
            limit: line.number("limit"),
            all: line.number("all").unwrap_or(0),
            global: line.number("global"),
        };
        return of_bucket(&Bucket::parse("a/prod").unwrap(), &full).text(NOW);
    }
    let Some(line) = find("sandbox") else { return of_past(&log, NOW).text(NOW) };
    let policy = find("policy")
        .map(|line| BucketPolicy { retention: line.span("retention"), ..BucketPolicy::default() });
    let (policy, timing) = (policy.unwrap_or_default(), Timing::default());
    let facts =
        Facts { now: NOW, timing: &timing, policy: &policy, overdue_grace: Duration::from_secs(1800) };
    of_entry(&entry(line), &log, &facts).text(NOW)
}

#[test]
fn every_case_is_explained_as_it_was_read_and_found_right() {
    for file in expect::files("cases") {
        let given = expect::given(&file);
        let came: Vec<String> = given.split("\n\n").map(explained).collect();
        let came = came.join("\n");
        assert!(!came.contains("never shown"), "metadata is data: {came}");
        expect::compare(&file, &came);
    }
}
