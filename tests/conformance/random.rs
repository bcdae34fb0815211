//! Random steps, the same on a store and on the model, compared after each one.
//!
//! The steps follow from the seed alone, so a failure's steps are the shortest prefix of it that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Appointment, Batch, Committed, Log, Reached};
use cubewarden::time::{Chance, UnixMillis};

use super::model::{Expected, Model};
use super::place::{Place, slots, volume};

const STEPS: usize = 150;
/// Paste the seed of a failure here: these run every time, besides a new one.
const PASTED: [u64; 3] = [1, 2, 15_004_250_390_083_281_660];

pub(super) async fn random_steps_agree_with_the_model(place: Place) {
    let new = Chance::from_os().below(u64::MAX);
    for seed in PASTED.into_iter().chain([new]) {
        let steps = steps(&Chance::seeded(seed));
        if let Err((failed, difference)) = walk(place.another(), &steps).await {
            let prefix = &steps[..=failed];
            panic!("seed {seed} differs after {} steps: {difference}\n{prefix:#?}", prefix.len());
        }
    }
}

/// One step, in numbers: which key, which set, which member.
#[derive(Debug)]
enum Step {
    Commit(Plan),
    Trim { keep: usize },
    Clock { forward: bool, by: Duration },
    Reopen,
}

#[derive(Debug, Default)]
struct Plan {
    /// Keys whose version is expected, and how far from the true one.
    expect: Vec<(u64, u64)>,
    room: Vec<(u64, u64)>,
    put: Vec<(u64, Vec<u8>)>,
    remove: Vec<u64>,
    join: Vec<(u64, u64)>,
    leave: Vec<(u64, u64)>,
    appoint: BTreeMap<u64, Option<u64>>,
    log: Vec<Vec<u8>>,
}

fn steps(chance: &Chance) -> Vec<Step> {
    let step = |_| match chance.below(20) {
        0 => Step::Reopen,
        1 => Step::Trim { keep: usize::try_from(chance.below(12)).unwrap() },
        2 | 3 => Step::Clock { forward: chance.below(3) > 0, by: Duration::from_millis(chance.below(5000)) },
        _ => Step::Commit(plan(chance)),
    };
    (0..STEPS).map(step).collect()
}

fn plan(chance: &Chance) -> Plan {
    fn some<T>(chance: &Chance, most: u64, one: impl Fn() -> T) -> Vec<T> {
        (0..chance.below(most + 1)).map(|_| one()).collect()
    }
    let bytes = || chance.hex(usize::try_from(chance.below(40)).unwrap()).into_bytes();
    let member = || (chance.below(4), chance.below(9));
    Plan {
        expect: some(chance, 2, || (chance.below(6), u64::from(chance.below(8) == 0))),
        room: some(chance, 1, || (chance.below(4), 2 + chance.below(6))),
        put: some(chance, 2, || (chance.below(6), bytes())),
        remove: some(chance, 1, || chance.below(6)),
        join: some(chance, 3, member),
        leave: some(chance, 2, member),
        appoint: some(chance, 2, || (chance.below(9), (chance.below(3) > 0).then(|| chance.below(50))))
            .into_iter()
            .collect(),
        log: some(chance, 1, bytes),
    }
}

fn key(number: u64) -> Key {
    volume(&format!("v{number}"))
}

fn set(number: u64) -> Set {
    ["a/b", "a/b-c", "a/c"].get(usize::try_from(number).unwrap()).map_or(Set::AllSlots, |name| slots(name))
}

fn member(number: u64) -> String {
    format!("m{number}")
}

impl Plan {
    fn batch(&self, model: &Model) -> Batch {
        let was = |of: &str| model.appointments.iter().find(|(_, member)| member == of).map(|(at, _)| *at);
        let place = |(of, who): &(u64, u64)| (set(*of), member(*who));
        let appointment = |(who, is): (&u64, &Option<u64>)| {
            let member = member(*who);
            Appointment { was: was(&member).map(UnixMillis), is: is.map(UnixMillis), member }
        };
        let expect = |(of, off): &(u64, u64)| (key(*of), model.version(&key(*of).to_string()) + off);
        Batch {
            floor: Reached::default(),
            expect: self.expect.iter().map(expect).collect(),
            room: self.room.iter().map(|(of, fewer)| (set(*of), *fewer)).collect(),
            put: self.put.iter().map(|(of, value)| (key(*of), value.clone())).collect(),
            remove: self.remove.iter().map(|of| key(*of)).collect(),
            join: self.join.iter().map(place).collect(),
            leave: self.leave.iter().map(place).collect(),
            appointments: self.appoint.iter().map(appointment).collect(),
            log: self.log.clone(),
            ..Batch::default()
        }
    }
}

/// `Err`: which step, and what differed after it.
async fn walk(mut place: Place, steps: &[Step]) -> Result<(), (usize, String)> {
    let (mut model, mut now) = (Model::default(), place.now().await);
    for (number, step) in steps.iter().enumerate() {
        let fail = |what| (number, what);
        match step {
            Step::Commit(plan) => {
                let batch = plan.batch(&model);
                commit(&place, &mut model, &batch).await.map_err(fail)?;
            }
            Step::Trim { keep } => {
                place.store().trim_log(Log::Calls, *keep as u64, 0).await.unwrap();
                model.trim(*keep);
            }
            Step::Clock { forward: true, by } => place.clock.advance(*by),
            Step::Clock { forward: false, by } => place.clock.set(now.minus(*by)),
            Step::Reopen if place.lasts() => {
                // A time that no commit has seen may be forgotten.
                place.done(Batch::default()).await;
                place.reopen();
            }
            Step::Reopen => {}
        }
        let then = std::mem::replace(&mut now, place.now().await);
        same("the time after a step back", &now.max(then), &now).map_err(fail)?;
        same("the contents", &model, &seen(&place, &model).await).map_err(fail)?;
        sizes(&place, &model).await.map_err(fail)?;
    }
    Ok(())
}

async fn commit(place: &Place, model: &mut Model, batch: &Batch) -> Result<(), String> {
    let expected = model.expected(batch);
    let became = match place.commit(batch.clone()).await {
        Committed::Done(version) => {
            model.perform(batch, version);
            Expected::Done
        }
        Committed::Moved => Expected::Moved,
        Committed::Full { set, held } => Expected::Full { set: set.to_string(), held },
    };
    same("what became of the commit", &expected, &became)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:#?}, found {found:#?}"))
}

/// Everything the store shows, in the model's form.
async fn seen(place: &Place, model: &Model) -> Model {
    let mut seen = Model { log: place.log().await, ..Model::default() };
    for number in 0..6 {
        let record = place.record(&key(number)).await;
        if record.version > 0 {
            seen.records.insert(key(number).to_string(), (record.version, record.value));
        }
    }
    for number in 0..4 {
        let members: BTreeSet<String> = place.members(&set(number)).await.into_iter().collect();
        if !members.is_empty() || model.sets.contains_key(&set(number).to_string()) {
            seen.sets.insert(set(number).to_string(), members);
        }
    }
    for at in 0..50 {
        let before: BTreeSet<String> = seen.appointments.iter().map(|(_, member)| member.clone()).collect();
        let due = place.due(at).await;
        seen.appointments.extend(due.into_iter().filter(|who| !before.contains(who)).map(|who| (at, who)));
    }
    seen
}

async fn sizes(place: &Place, model: &Model) -> Result<(), String> {
    for number in 0..4 {
        let set = set(number);
        same("the size of a set", &model.size(&set.to_string()), &place.size(&set).await)?;
    }
    Ok(())
}
