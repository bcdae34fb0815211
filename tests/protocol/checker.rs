//! The properties, and the world as the checker walks it.

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use super::actions::Action;
use super::setup::{Luck, Setup};
use super::world::{N, World};

/// Ledger and Cube agree after so many honest ticks, whatever was left half done.
const HONEST_TICKS: u64 = 12;

pub(super) const I1: &str = "I1: no root is killed, no successor is hit";
pub(super) const I2: &str = "I2: what exists, or may come to be, holds a slot";
pub(super) const I3: &str = "I3: never more than the limit";
pub(super) const SETTLES: &str = "I2: every slot is explained in the end";

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.breach.is_none() {
            world.possible(self, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.happen(self, action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(I1, |_, world: &World| world.breach.is_none()),
            Property::always(I2, |_, world: &World| world.was_lost() || is_charged(world)),
            Property::always(I3, |setup: &Self, world: &World| world.was_lost() || is_within(setup, world)),
            Property::always(SETTLES, |setup: &Self, world: &World| {
                !is_over(setup, world) || settles(setup, world.clone())
            }),
        ]
    }
}

/// Nothing is under way any more, and the clock has stopped.
fn is_over(setup: &Setup, world: &World) -> bool {
    world.now == setup.last
        && world.wire.is_empty()
        && world.wardens.iter().all(|warden| warden.doing.is_empty())
}

fn is_charged(world: &World) -> bool {
    let charged = |n: &N| world.ledger.slots.contains(n);
    world.existing().iter().all(charged) && world.creates_on_their_way().all(|n| charged(&n))
}

fn is_within(setup: &Setup, world: &World) -> bool {
    let there = world.existing().len() + world.creates_on_their_way().count();
    let fits = |count: usize| count as u64 <= setup.limit;
    fits(there) && fits(world.ledger.slots.len())
}

/// Both wardens die, what is on its way arrives, and from then on everybody does what it should.
fn settles(setup: &Setup, mut world: World) -> bool {
    let honest = Setup { last: setup.last + HONEST_TICKS, collector: None, ..setup.clone() };
    world.luck = Luck::default();
    world.crash(0);
    world.crash(1);
    world.wishes.fill(super::world::Stage::Over);
    let (mut possible, mut done) = (Vec::new(), Vec::new());
    loop {
        possible.clear();
        world.possible(&honest, &mut possible);
        let once_a_tick = |action: &&Action| !done.contains(*action) && !matches!(action, Action::Drop(_));
        let next = possible.iter().filter(|action| **action != Action::Tick).find(once_a_tick);
        let Some(next) = next.or(possible.first().filter(|first| **first == Action::Tick)).copied() else {
            break;
        };
        if next == Action::Tick {
            done.clear();
        } else {
            done.push(next);
        }
        world.happen(&honest, next);
    }
    let alive = world.existing();
    world.now == honest.last
        && world.ledger.slots == alive
        && alive.iter().all(|n| world.ledger.entries.get(n).is_some_and(|entry| entry.usable()))
}

/// What a run came to.
pub(super) struct Walk {
    pub(super) states: usize,
    /// The properties that fail, each with the shortest way there.
    pub(super) failures: BTreeMap<&'static str, String>,
}

/// Walks every state, or until a property fails.
pub(super) fn walk(setup: Setup) -> Walk {
    let checker = setup.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let told = |path: Path<World, Action>| {
        let steps: Vec<String> = path.into_actions().iter().map(|action| format!("  {action:?}")).collect();
        steps.join("\n")
    };
    let failures = checker.discoveries().into_iter().map(|(name, path)| (name, told(path))).collect();
    Walk { states: checker.unique_state_count(), failures }
}
