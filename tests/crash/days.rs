//! Seeded days: one warden lives through whatever clients, Cube, power cuts and the clock come up with.
//!
//! After every step: nothing was deleted at Cube that its client did not end or was never told of (I1), every sandbox is charged and
//! has its owner (I2, I4), and never more than the limit is alive or on its way (I3). At nightfall everything comes to rest: slots =
//! entries = sandboxes. Same seed, same day.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, UnixMillis};

use super::world::{Call, TEMPLATE, World};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::{Fault, Rule};
use crate::cube::model::State;

const DAYS: u64 = 8;
const STEPS: usize = 25;
const LIMIT: usize = 4;
const CONFIG: &str = "[bucket_defaults]\nlimit = 4\n[admission]\nwait = \"2s\"\n[adopt]\nbucket = \"none\"\n";

/// The same with a collector that ends what has been paused for four minutes.
const COLLECTED: &str = "[bucket_defaults]\nlimit = 4\nretention = \"4m\"\n[admission]\nwait = \"2s\"\n\
                         [adopt]\nbucket = \"none\"\n[collector]\ncycle = \"50s\"\nnewborn_grace = \"60s\"\n";
const RETENTION: Duration = Duration::from_secs(240);
/// Steps of a collected day, a minute each and more.
const COLLECTED_STEPS: usize = 80;
const COLLECTED_DAYS: u64 = 6;

/// What kind of day it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayKind {
    /// Nothing is ended but by its client.
    Plain,
    /// A cycle of the collector with each step.
    Collected,
}

/// What a client waits for.
enum Wants {
    Born,
    Ended,
    Else,
}

/// One day, and what its clients know.
struct Day {
    seed: u64,
    world: World,
    chance: Chance,
    calls: Vec<(Wants, Call)>,
    /// Told by a 201.
    told: BTreeSet<String>,
    /// Their end was asked for, or comes by itself.
    ended: BTreeSet<String>,
    kind: DayKind,
    /// Since when Cube has had each sandbox paused without a break.
    paused: BTreeMap<String, UnixMillis>,
    /// How many the collector ended.
    collected: usize,
    /// How many requests Cube had seen before this step.
    seen: usize,
    /// Since when Cube holds requests back, if it does.
    held_since: Option<UnixMillis>,
    story: String,
}

/// The story of the day; the same for the same seed.
fn live(seed: u64) -> String {
    day(seed, DayKind::Plain).story
}

fn day(seed: u64, kind: DayKind) -> Day {
    let (config, steps) = match kind {
        DayKind::Plain => (CONFIG, STEPS),
        DayKind::Collected => (COLLECTED, COLLECTED_STEPS),
    };
    let profile = Profile::ALL[usize::try_from(seed % 3).unwrap()];
    let mut day = Day {
        seed,
        world: World::in_memory(profile, config, seed),
        chance: Chance::seeded(seed),
        calls: Vec::new(),
        told: BTreeSet::new(),
        ended: BTreeSet::new(),
        kind,
        paused: BTreeMap::new(),
        collected: 0,
        seen: 0,
        held_since: None,
        story: String::new(),
    };
    for step in 0..steps {
        day.step(step);
        day.allow_collected();
        day.check();
    }
    day.nightfall();
    day
}

impl Day {
    fn below(&self, bound: u64) -> u64 {
        self.chance.below(bound)
    }

    fn one_of(&self, ids: &BTreeSet<String>) -> Option<String> {
        let at = usize::try_from(self.below(ids.len() as u64)).unwrap();
        ids.iter().nth(at).cloned()
    }

    fn name(&self) -> String {
        format!("seed {} (run live(seed) again):\n{}", self.seed, self.story)
    }

    fn step(&mut self, step: usize) {
        if self.world.is_dead() || !self.world.is_up() {
            self.power_cut();
        }
        self.let_go_of_the_old(Duration::ZERO);
        if self.kind == DayKind::Collected {
            self.world.advance(Duration::from_secs(60));
        }
        self.note_paused();
        let what = match self.below(20) {
            0..=5 => self.create(),
            6..=8 => self.delete(),
            9..=11 => self.touch(),
            12 | 13 => self.fault(),
            14 => {
                self.world.cube.release();
                "cube lets go".to_owned()
            }
            15 => self.hang_up(),
            16 => self.power_cut(),
            17 => self.die_at_a_commit(),
            18 => self.jump(),
            _ => {
                self.world.advance(Duration::from_secs(5));
                "five seconds".to_owned()
            }
        };
        self.world.settle();
        self.note_paused();
        if self.world.is_up() && !self.world.is_dead() {
            self.world.tick_due();
            if self.kind == DayKind::Collected {
                self.world.tick_collector();
            } else if step.is_multiple_of(4) {
                self.world.tick_inventory();
            }
            self.world.settle();
        }
        self.hear();
        let (alive, held) = (self.world.alive().len(), self.world.cube.held());
        writeln!(self.story, "{step}: {what}; {alive} alive, {held} held, {} calls", self.calls.len())
            .unwrap();
    }

    /// No Cube holds a request for as long as a lost create may still appear: what it has held for five minutes, or would
    /// have in so long a `jump`, it lets go.
    fn let_go_of_the_old(&mut self, jump: Duration) {
        const LONGEST: Duration = Duration::from_secs(300);
        let now = self.world.clock.now();
        if self.world.cube.held() == 0 {
            self.held_since = None;
            return;
        }
        let since = *self.held_since.get_or_insert(now);
        if now.since(since).saturating_add(jump) >= LONGEST {
            self.world.cube.release();
            self.world.settle();
            self.held_since = None;
        }
    }

    fn create(&mut self) -> String {
        // What never ends is never anybody's to collect.
        let life = match self.kind {
            DayKind::Plain => r#""timeout":1000000"#,
            DayKind::Collected => r#""timeout":60,"lifecycle":{"onTimeout":"pause"}"#,
        };
        let body = format!(r#"{{"templateID":"{TEMPLATE}",{life},"metadata":{{"n":"{}"}}}}"#, self.below(9));
        let key = self.below(6);
        let client = match key {
            0..=1 => self.world.client().with("idempotency-key", &format!("{key}")),
            _ => self.world.client(),
        };
        let call = self.world.call_as(client, "POST", "/sandboxes", &body);
        self.calls.push((Wants::Born, call));
        format!("create with key {key}")
    }

    fn delete(&mut self) -> String {
        let Some(id) = self.one_of(&self.told) else { return "nothing to delete".to_owned() };
        self.ended.insert(id.clone());
        let call = self.world.call("DELETE", &format!("/sandboxes/{id}"), "");
        self.calls.push((Wants::Ended, call));
        "delete".to_owned()
    }

    fn touch(&mut self) -> String {
        let Some(id) = self.one_of(&self.told) else { return "nothing to touch".to_owned() };
        let (verb, body) = [
            ("pause", ""),
            ("connect", r#"{"timeout":1000000}"#),
            ("resume", r#"{"timeout":1000000}"#),
            ("timeout", r#"{"timeout":1000000}"#),
        ][usize::try_from(self.below(4)).unwrap()];
        // Where somebody collects, half of all calls give it something to do.
        let pauses = self.kind == DayKind::Collected && self.below(2) == 0;
        let (verb, body) = if pauses { ("pause", "") } else { (verb, body) };
        let body =
            if self.kind == DayKind::Collected { body.replace("1000000", "60") } else { body.to_owned() };
        let call = self.world.call("POST", &format!("/sandboxes/{id}/{verb}"), &body);
        self.calls.push((Wants::Else, call));
        verb.to_owned()
    }

    fn fault(&mut self) -> String {
        let kinds = [Kind::Create, Kind::Create, Kind::Delete, Kind::Connect, Kind::Resume, Kind::Pause];
        let kind = kinds[usize::try_from(self.below(6)).unwrap()];
        let late_ms = [None, Some(self.below(400_000))][usize::try_from(self.below(2)).unwrap()];
        let rule: Rule = match self.below(13) {
            0 | 1 => Fault::LoseAnswer.on(kind),
            2 => Fault::DropRequest.on(kind),
            3 => Fault::Reset { done: true }.on(kind),
            4 => Fault::TransportError.on(kind),
            5 => Fault::Refuse { status: 408, body: String::new(), retry_after: None }.on(kind),
            6 => Fault::Block { late_ms }.on(kind),
            7 => Fault::Hold { done: false }.on(kind),
            8 => Fault::Hold { done: true }.on(kind),
            9 => Fault::NoResource.on(Kind::Create),
            10 => Fault::DeleteBusy.on(Kind::Delete),
            11 => Fault::EmptyList.on(Kind::List),
            _ => Fault::ListFails.on(Kind::List),
        };
        let rule = rule.times(1);
        let told = format!("{rule:?}");
        self.world.cube.fault(rule);
        told
    }

    fn hang_up(&mut self) -> String {
        if self.calls.is_empty() {
            return "nobody hangs up".to_owned();
        }
        let at = usize::try_from(self.below(self.calls.len() as u64)).unwrap();
        self.calls.remove(at).1.hang_up();
        "somebody hangs up".to_owned()
    }

    fn power_cut(&mut self) -> String {
        self.hear();
        if self.world.is_up() {
            self.world.crash();
        }
        self.world.start(|_| {});
        self.hear();
        "power cut".to_owned()
    }

    fn die_at_a_commit(&mut self) -> String {
        let store = self.world.store();
        let (next, after) = (store.commits() + 1 + self.below(6), self.below(2) == 0);
        if after {
            store.hang_after(next);
        } else {
            store.hang_before(next);
        }
        format!("death near, after the commit: {after}")
    }

    /// Forward mostly; a little back now and then. A create that Cube does late still comes before the horizon.
    fn jump(&mut self) -> String {
        let seconds = [1, 30, 70, 200, 700][usize::try_from(self.below(5)).unwrap()];
        if self.below(5) == 0 {
            let back = Duration::from_secs(20);
            self.world.clock.set(self.world.clock.now().minus(back));
            // Whoever was paused has been so for as long as before.
            self.paused.values_mut().for_each(|since| *since = since.minus(back));
            return "the clock steps back".to_owned();
        }
        self.let_go_of_the_old(Duration::from_secs(seconds));
        self.world.advance(Duration::from_secs(seconds));
        format!("{seconds} seconds")
    }

    /// Since when what is paused has been so, as Cube itself knows.
    fn note_paused(&mut self) {
        let (now, alive) = (self.world.clock.now(), self.world.cube.alive());
        let paused = alive.into_iter().filter(|one| one.state == State::Paused);
        let paused: BTreeSet<String> = paused.map(|one| one.id).collect();
        self.paused.retain(|id, _| paused.contains(id));
        for id in paused {
            self.paused.entry(id).or_insert(now);
        }
    }

    /// Whoever has been paused for as long as its bucket keeps such may be gone; nobody else who was not ended.
    fn allow_collected(&mut self) {
        if self.kind == DayKind::Plain {
            return;
        }
        let now = self.world.clock.now();
        // Once a DELETE of it went out, whatever came of that.
        let requests = self.world.cube.requests();
        let of_step = &requests[self.seen.min(requests.len())..];
        for (at, seen) in of_step.iter().enumerate().filter(|(_, seen)| seen.head.method == "DELETE") {
            let id = seen.head.target.strip_prefix("/sandboxes/").unwrap_or_default();
            let paused = self.paused.get(id).map(|since| now.since(*since));
            let touched = of_step[..at].iter().any(|before| touches(before, id));
            if paused.is_some_and(|paused| paused >= RETENTION) && !touched {
                self.collected += usize::from(self.ended.insert(id.to_owned()));
            }
        }
        self.seen = requests.len();
    }

    /// Takes in what has been answered.
    fn hear(&mut self) {
        let (answered, waiting) =
            std::mem::take(&mut self.calls).into_iter().partition(|(_, call)| call.is_finished());
        self.calls = waiting;
        let answered: Vec<(Wants, Call)> = answered;
        for (wants, call) in answered {
            let Some(answer) = self.world.answer(call) else { continue };
            match wants {
                Wants::Born if answer.status == 201 => {
                    self.told.insert(answer.text("sandboxID"));
                }
                Wants::Born | Wants::Ended | Wants::Else => {}
            }
            writeln!(self.story, "   {}", answer.status.as_u16()).unwrap();
        }
    }

    fn check(&self) {
        let name = self.name();
        let high = self.world.cube.high_water(&[]);
        assert!(high <= LIMIT, "I3: {high} alive or on their way: {name}");
        for seen in self.world.cube.requests() {
            let id = seen.head.target.strip_prefix("/sandboxes/").unwrap_or_default();
            let wanted = !self.told.contains(id) || self.ended.contains(id);
            assert!(
                seen.head.method != "DELETE" || wanted,
                "I1: {id} was deleted and nobody wanted it (paused since {:?}, now {:?}; its last calls {:?}): {name}",
                self.paused.get(id),
                self.world.clock.now(),
                self.last_calls(id)
            );
        }
        for id in self.told.difference(&self.ended) {
            assert!(self.world.alive().contains(id), "I1: {id} is gone and nobody wanted it: {name}");
        }
        if self.world.is_up() && !self.world.is_dead() {
            self.world.check_counted(&name);
        }
    }

    /// What Cube was last asked about one sandbox, for whoever reads a broken law.
    fn last_calls(&self, id: &str) -> Vec<String> {
        let requests = self.world.cube.requests();
        let of_it = requests.iter().filter(|seen| seen.head.target.contains(id));
        let lines: Vec<String> =
            of_it.map(|seen| format!("{} {}", seen.head.method, seen.head.target)).collect();
        lines[lines.len().saturating_sub(12)..].to_vec()
    }

    fn nightfall(&mut self) {
        self.world.cube.clear_faults();
        self.world.cube.release();
        if self.world.is_dead() {
            self.power_cut();
        }
        self.world.reconcile();
        if self.world.is_dead() {
            self.power_cut();
            self.world.reconcile();
        }
        self.hear();
        self.allow_collected();
        self.check();
        self.world.check_settled(&self.name());
    }
}

#[test]
fn eight_days_break_no_law() {
    for seed in 0..DAYS {
        let _story = std::panic::catch_unwind(|| live(seed)).unwrap_or_else(|panic| {
            eprintln!("the day of seed {seed} broke a law");
            std::panic::resume_unwind(panic)
        });
    }
}

/// A client's own call on a sandbox (the warden wakes what it may end, on old Cubes).
fn touches(seen: &crate::cube::server::Seen, id: &str) -> bool {
    let own = seen.head.headers.iter().any(|(_, value)| value.starts_with("cubewarden/"));
    seen.head.method == "POST" && !own && seen.head.target.starts_with(&format!("/sandboxes/{id}/"))
}

/// Every law through `days` days with a collector; how many it ended, of how many steps.
fn collected_days(seeds: std::ops::Range<u64>) -> usize {
    let mut collected = 0;
    for seed in seeds.clone() {
        let day = std::panic::catch_unwind(|| day(seed, DayKind::Collected)).unwrap_or_else(|panic| {
            eprintln!("the collected day of seed {seed} broke a law");
            std::panic::resume_unwind(panic)
        });
        collected += day.collected;
    }
    let days = seeds.end - seeds.start;
    println!("{days} days, {} steps, {collected} collected, no law broken", days * COLLECTED_STEPS as u64);
    collected
}

#[test]
fn days_with_a_collector_end_nobody_who_was_not_paused_for_as_long_as_is_allowed() {
    assert!(collected_days(0..COLLECTED_DAYS) > 0, "the collector had something to do");
}

/// `./dev simulate [DAYS] [FIRST SEED]`: as many days as somebody has patience for.
#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the long form says how long")]
fn as_many_days_as_are_asked_for() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (days, first) = (number("SIMULATED_DAYS").unwrap_or(1), number("SIMULATED_FROM").unwrap_or(100));
    collected_days(first..first + days);
}

/// Paste a seed here.
#[test]
fn one_day_lived_twice_is_the_same_day() {
    let seed = 7;
    assert_eq!(live(seed), live(seed));
}
