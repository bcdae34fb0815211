//! Random holders: acquire, beat, release, give up and end, applied to the pure rules and to the ledger on a store, compared
//! after each step. The steps follow from the seed alone, so a failure's steps are the shortest prefix of it that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Generation, Marker, SandboxId};
use cubewarden::ledger::{Acquired, Ask, ByHolder, Condemned, Holding, KillReport, Ledger, Limits, Reserved};
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::delete::{self, Decision as May, Judged, Shown};
use cubewarden::rules::entry::{
    Activity, Actor, Birth, Entry, Proof, State, Struck, Timing, generation_after,
};
use cubewarden::time::{Chance, UnixMillis};

use super::leases::{bucket, lease, ledger_on, owner, plan};
use super::place::Place;

const STEPS: usize = 150;
/// Paste the seed of a failure here: these run every time, besides a new one.
const PASTED: [u64; 2] = [1, 2];
const OWNERS: [&str; 2] = ["r", "s"];
const LEASES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One step: of which owner, by which lease.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize, usize),
    Acquire(usize, usize),
    Beat(usize, usize),
    Release(usize, usize),
    DropClaim(usize),
    /// Cube shows it.
    Shown(usize, Activity),
    /// An end by somebody who shows the present generation, or the one before.
    Condemn(usize, Actor, Generation),
    /// Cube has deleted what is condemned.
    Deleted(usize),
    Clock {
        forward: bool,
        by: Duration,
    },
    Reopen,
}

fn steps(chance: &Chance) -> Vec<Step> {
    let below = |most: usize| usize::try_from(chance.below(most as u64)).unwrap();
    let step = |_| {
        let (of, by) = (below(OWNERS.len()), below(LEASES.len()));
        match chance.below(24) {
            0..=3 => Step::Create(of, by),
            4..=8 => Step::Acquire(of, by),
            9..=11 => Step::Beat(of, by),
            12 => Step::Release(of, by),
            13 | 14 => Step::DropClaim(of),
            15 => Step::Shown(of, Activity::Running),
            16 | 17 => Step::Shown(of, Activity::Paused(UnixMillis(0))),
            18 => Step::Condemn(of, Actor::Client, Generation(chance.below(3))),
            19 => Step::Condemn(of, Actor::Collector, Generation(chance.below(2))),
            20 => Step::Deleted(of),
            21 | 22 => {
                Step::Clock { forward: chance.below(3) > 0, by: Duration::from_secs(chance.below(400)) }
            }
            _ => Step::Reopen,
        }
    };
    (0..STEPS).map(step).collect()
}

pub(super) async fn random_holders_agree_with_the_rules(place: Place) {
    let new = Chance::from_os().below(u64::MAX);
    for seed in PASTED.into_iter().chain([new]) {
        let steps = steps(&Chance::seeded(seed));
        if let Err((failed, difference)) = walk(place.another(), &steps).await {
            let prefix = &steps[..=failed];
            panic!("seed {seed} differs after {} steps: {difference}\n{prefix:#?}", prefix.len());
        }
    }
}

/// What there is, by the rules alone.
#[derive(Default)]
struct Model {
    entries: BTreeMap<Marker, Entry>,
    /// The entry that each owner holds, or held last.
    last: [Option<Marker>; OWNERS.len()],
    sealed: BTreeSet<(usize, usize)>,
    now: UnixMillis,
}

fn timing() -> Timing {
    Timing::default()
}

impl Model {
    fn of(&self, owner: usize) -> Option<&Entry> {
        self.entries.get(self.last[owner].as_ref()?)
    }

    fn living(&self, owner: usize) -> Option<Entry> {
        self.of(owner).filter(|entry| entry.usable()).cloned()
    }

    /// It is so from now on; and whoever was overtaken, or ended it, never acts again.
    fn write(&mut self, of: usize, old: &Entry, new: Entry) {
        if let Some(held) = &old.lease {
            let overtaken = new.lease.as_ref().is_none_or(|lease| lease.id != held.id);
            let ended = new.kill().is_some_and(|kill| !kill.actor.yields()) && old.usable();
            if overtaken || ended {
                let by = LEASES.iter().position(|name| lease(name) == held.id).unwrap();
                self.sealed.insert((of, by));
            }
        }
        self.entries.insert(new.marker.clone(), new);
    }

    /// What nobody claims and nothing keeps is condemned.
    fn deferred(&self, entry: Entry) -> Entry {
        let may = delete::decide(Actor::Deferred, &Shown::nothing(), &entry, self.now, &timing());
        if may == May::Allow { entry.condemn(Actor::Deferred, self.now).unwrap() } else { entry }
    }

    fn by_holder(&mut self, of: usize, by: usize, rule: impl Fn(Entry, UnixMillis) -> Entry) -> &'static str {
        if self.sealed.contains(&(of, by)) {
            return "sealed";
        }
        let held = self.living(of).filter(|entry| entry.lease.as_ref().unwrap().id == lease(LEASES[by]));
        let Some(entry) = held else { return "mismatch" };
        self.write(of, &entry, rule(entry.clone(), self.now));
        "done"
    }

    fn acquire(&mut self, of: usize, by: usize) -> &'static str {
        let Some(entry) = self.of(of).cloned() else { return "dead" };
        if self.sealed.contains(&(of, by)) {
            return "sealed";
        }
        let plan = plan(LEASES[by]).begin(self.now);
        let Ok(acquired) = entry.clone().acquire(plan, self.now, &timing()) else { return "dead" };
        self.write(of, &entry, acquired.entry);
        "yes"
    }

    fn release(&mut self, of: usize, by: usize) -> &'static str {
        self.by_holder(of, by, |entry, now| entry.condemn(Actor::Holder, now).unwrap())
    }

    fn drop_claim(&mut self, of: usize) {
        let Some(entry) = self.living(of) else { return };
        let next = self.deferred(entry.clone().drop_claim(&timing()).unwrap());
        self.write(of, &entry, next);
    }

    fn shown(&mut self, of: usize, activity: Activity) {
        let Some(entry) = self.of(of).cloned() else { return };
        let next = entry.clone().seen(activity, self.now, self.now).outlived(self.now, &timing());
        let next = self.deferred(next);
        self.write(of, &entry, next);
    }

    fn condemn(&mut self, of: usize, actor: Actor, shown: &Shown) -> Condemned {
        let Some(entry) = self.of(of).cloned() else { return Condemned::NotFound };
        match delete::decide(actor, shown, &entry, self.now, &timing()) {
            May::Allow => {
                self.write(of, &entry, entry.clone().condemn(actor, self.now).unwrap());
                Condemned::Yes
            }
            May::Join => Condemned::Yes,
            May::NotFound => Condemned::NotFound,
            May::Fenced => Condemned::Fenced,
            May::Unproven => Condemned::Unproven,
            May::Kept => Condemned::Kept,
            May::Later => Condemned::Later,
        }
    }

    fn deleted(&mut self, of: usize) {
        let Some(entry) = self.of(of).filter(|entry| entry.kill().is_some()).cloned() else { return };
        let struck = entry.clone().struck(Struck::Surely);
        let next = struck.absent(Proof::Deleted, self.now, &timing()).unwrap();
        self.write(of, &entry, next);
    }
}

/// What somebody shows: `back` is how far its generation lies behind the present one.
fn shown(actor: Actor, entry: &Entry, back: Generation, now: UnixMillis) -> Shown {
    let generation = Some(Generation(entry.generation.0 - back.0));
    let judged = Judged { incarnation: entry.incarnation, marked: now, ceilings: Ceilings::default() };
    Shown { judged: (actor == Actor::Collector).then_some(judged), ..Shown::of_generation(generation) }
}

/// `Err`: which step, and what differed after it.
async fn walk(mut place: Place, steps: &[Step]) -> Result<(), (usize, String)> {
    let mut ledger = ledger_on(&place, 0).await;
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        let fail = |what| (number, what);
        model.now = place.now().await;
        match *step {
            Step::Clock { forward: true, by } => place.clock.advance(by),
            Step::Clock { forward: false, by } => place.clock.set(model.now.minus(by)),
            Step::Reopen if place.lasts() => {
                drop(ledger);
                // A time that no commit has seen may be forgotten.
                place.done(cubewarden::store::Batch::default()).await;
                place.reopen();
                ledger = ledger_on(&place, 1 + number as u64).await;
            }
            Step::Reopen => {}
            step => take(&ledger, &mut model, step).await.map_err(fail)?,
        }
        compare(&ledger, &model).await.map_err(fail)?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, rules: &T, store: &T) -> Result<(), String> {
    if rules == store {
        return Ok(());
    }
    Err(format!("{what}: by the rules {rules:#?}, in the store {store:#?}"))
}

/// Takes a step on both, and compares what each says.
async fn take(ledger: &Arc<Ledger>, model: &mut Model, step: Step) -> Result<(), String> {
    let marker = |model: &Model, of: usize| model.last[of].clone();
    match step {
        Step::Create(of, by) => create(ledger, model, of, by).await,
        Step::Acquire(of, by) => {
            let Some(marker) = marker(model, of) else { return Ok(()) };
            let acquired = match ledger.acquire(&marker, &plan(LEASES[by])).await.unwrap() {
                Acquired::Yes(_) => "yes",
                Acquired::Other => "other",
                Acquired::Sealed => "sealed",
                Acquired::Dead => "dead",
            };
            same("acquire", &model.acquire(of, by), &acquired)
        }
        Step::Beat(of, by) => {
            let beaten = ledger.lease_beat(&bucket(), &owner(OWNERS[of]), &lease(LEASES[by])).await.unwrap();
            let expected = model.by_holder(of, by, |entry, now| entry.beat(now).unwrap());
            same("beat", &expected, &said(&beaten))
        }
        Step::Release(of, by) => {
            let released = ledger.release(&bucket(), &owner(OWNERS[of]), &lease(LEASES[by])).await.unwrap();
            same("release", &model.release(of, by), &said(&released))
        }
        Step::DropClaim(of) => {
            let Some(marker) = marker(model, of) else { return Ok(()) };
            ledger.drop_claim(&marker, "bare").await.unwrap();
            model.drop_claim(of);
            Ok(())
        }
        Step::Shown(of, activity) => {
            let Some(marker) = marker(model, of) else { return Ok(()) };
            let activity = if activity == Activity::Running { activity } else { Activity::Paused(model.now) };
            ledger.asked(&marker, Some(activity), model.now).await.unwrap();
            model.shown(of, activity);
            Ok(())
        }
        Step::Condemn(of, actor, back) => {
            let Some(entry) = model.of(of) else { return Ok(()) };
            let (marker, shown) = (entry.marker.clone(), shown(actor, entry, back, model.now));
            let condemned = ledger.condemn(&marker, actor, &shown, "over").await.unwrap();
            same("condemn", &model.condemn(of, actor, &shown), &condemned)
        }
        Step::Deleted(of) => {
            let Some(marker) = marker(model, of) else { return Ok(()) };
            // Nobody tells the ledger so of what is not condemned.
            if model.of(of).is_some_and(|entry| entry.kill().is_some()) {
                let report = KillReport::Proof(Proof::Deleted);
                let before = ledger.entry(&marker).await.unwrap().unwrap();
                ledger.kill_tried(&before, report, "deleted").await.unwrap();
            }
            model.deleted(of);
            Ok(())
        }
        Step::Clock { .. } | Step::Reopen => Ok(()),
    }
}

fn said(by_holder: &ByHolder) -> &'static str {
    match by_holder {
        ByHolder::Done(_) => "done",
        ByHolder::Sealed => "sealed",
        ByHolder::Mismatch => "mismatch",
        ByHolder::Later => "later",
    }
}

/// An owner that holds nothing gets a sandbox; else what it holds is said.
async fn create(ledger: &Arc<Ledger>, model: &mut Model, of: usize, by: usize) -> Result<(), String> {
    let expected = match model.of(of) {
        _ if model.sealed.contains(&(of, by)) => "sealed",
        Some(entry) if entry.usable() => "held",
        _ => "free",
    };
    let claim = match ledger.holding(&bucket(), &owner(OWNERS[of]), Some(&lease(LEASES[by]))).await.unwrap() {
        Holding::Free(claim) => claim,
        Holding::OnItsWay(_) => return same("holding", &expected, &"on its way"),
        Holding::Held(_) => return same("holding", &expected, &"held"),
        Holding::Sealed => return same("holding", &expected, &"sealed"),
    };
    same("holding", &expected, &"free")?;
    let ask = Ask {
        marker: ledger.new_marker(),
        bucket: bucket(),
        owner: owner(OWNERS[of]),
        tenant: None,
        template: "tpl".to_owned(),
        metadata: None,
        key: None,
        request: None,
        lease: Some((claim, plan(LEASES[by]))),
    };
    let Reserved::Slot(reserved) = ledger.reserve(&ask, Limits::default()).await.unwrap() else {
        return Err("a free claim was not taken".to_owned());
    };
    let last = model.of(of).map(|entry| entry.generation);
    same("the generation", &generation_after(last, model.now), &reserved.generation)?;
    same("its first holder", &(1, 1), &(reserved.holders, reserved.claims))?;
    let deadline = Some(model.now.plus(Duration::from_secs(300)));
    let birth = Birth { sandbox: SandboxId::new(ask.marker.as_str()).unwrap(), answer: None, deadline };
    ledger.dispatch(&ask.marker).await.unwrap();
    let lease = plan(LEASES[by]).id;
    ledger.done(&ask.marker, &birth, Some(&lease)).await.unwrap();
    let dispatched = reserved.dispatch(model.now, &timing()).unwrap();
    let born = dispatched.answered(birth, Some(&lease), model.now, &timing()).unwrap();
    model.last[of] = Some(ask.marker.clone());
    model.entries.insert(ask.marker, born);
    Ok(())
}

/// Every entry as the rules have it, and a slot for each that holds one.
async fn compare(ledger: &Arc<Ledger>, model: &Model) -> Result<(), String> {
    for (marker, entry) in &model.entries {
        same("an entry", &Some(entry), &ledger.entry(marker).await.unwrap().as_ref())?;
    }
    let held = model.entries.values().filter(|entry| entry.charged()).count() as u64;
    same("slots", &held, &ledger.counts(&[]).await.unwrap().all.held())?;
    let living = model.entries.values().filter(|entry| matches!(entry.state, State::Live(_))).count();
    same("each owner holds one at most", &true, &(living <= OWNERS.len()))
}
