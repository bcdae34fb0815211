//! The runs: who is there and what may go wrong; what each must see, and what each must catch.
#![expect(clippy::print_stderr, reason = "the number of states is part of what is shown")]

use cubewarden::rules::entry::Keeper;

use super::checker::{I1, I2, I3, SETTLES, walk};
use super::setup::{Asked, AtItsEnd, Broken, Client, Id, Luck, Setup, Wish};

const NO_LUCK: Luck = Luck { crashes: 0, timeouts: 0, duplicates: 0, lies: 0, refusals: 0, lost_ledgers: 0 };

/// Two creates of two owners, one slot.
fn creates() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::B, 1, Wish::Create),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
        ],
        limit: 1,
        reuse: None,
        at_its_end: AtItsEnd::Nothing,
        collector: None,
        last: 3,
        luck: Luck { crashes: 1, timeouts: 1, lies: 1, ..NO_LUCK },
        broken: None,
    }
}

/// B takes over what A made; A's clean-ups come late.
fn holders() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::B, 1, Wish::Create),
            Asked(Client::A, 0, Wish::Delete(Id::Qualified)),
            Asked(Client::A, 1, Wish::Release),
        ],
        limit: 1,
        reuse: Some(Keeper::Calls),
        at_its_end: AtItsEnd::Nothing,
        collector: None,
        last: 2,
        luck: Luck { crashes: 1, duplicates: 1, ..NO_LUCK },
        broken: None,
    }
}

/// A collector with A's calls between its looks.
fn collector() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::A, 0, Wish::Connect(Id::Bare)),
            Asked(Client::A, 0, Wish::Beat),
        ],
        limit: 1,
        reuse: Some(Keeper::Heartbeats),
        at_its_end: AtItsEnd::Pauses,
        collector: Some(1),
        last: 5,
        luck: Luck { crashes: 1, timeouts: 1, ..NO_LUCK },
        broken: None,
    }
}

/// Bare ids after a reuse: a claim is given up, and what nobody claims goes.
fn bare() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::B, 1, Wish::Create),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
            Asked(Client::A, 0, Wish::Pause(Id::Bare)),
            Asked(Client::B, 1, Wish::Connect(Id::Qualified)),
        ],
        limit: 1,
        reuse: Some(Keeper::Calls),
        at_its_end: AtItsEnd::Pauses,
        collector: None,
        last: 3,
        luck: NO_LUCK,
        broken: None,
    }
}

/// A's own end while its call is under way.
fn ends() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::A, 1, Wish::Connect(Id::Bare)),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
            Asked(Client::B, 1, Wish::Create),
        ],
        limit: 1,
        reuse: None,
        at_its_end: AtItsEnd::Kills,
        collector: None,
        last: 3,
        luck: Luck { timeouts: 1, lies: 1, ..NO_LUCK },
        broken: None,
    }
}

/// The ledger loses everything at any moment.
fn lost() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::B, 1, Wish::Create),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
        ],
        limit: 1,
        reuse: Some(Keeper::Calls),
        at_its_end: AtItsEnd::Pauses,
        collector: Some(1),
        last: 4,
        luck: Luck { lost_ledgers: 1, ..NO_LUCK },
        broken: None,
    }
}

fn check(name: &str, setup: Setup, at_least: usize) {
    let walk = walk(setup);
    eprintln!("{name}: {} states", walk.states);
    if let Some((property, way)) = walk.failure {
        panic!("{name}: {property} fails after\n{way}");
    }
    assert!(walk.states >= at_least, "{name}: only {} states", walk.states);
}

fn catches(broken: Broken, setup: Setup, property: &str) {
    let walk = walk(Setup { broken: Some(broken), ..setup });
    let Some((failed, way)) = walk.failure else { panic!("{broken:?} is not caught in {} states", walk.states) };
    eprintln!("{broken:?} is caught by {failed} ({} states):\n{way}", walk.states);
    assert_eq!(failed, property, "{broken:?}:\n{way}");
}

#[test]
fn creates_through_crashes_timeouts_and_lies() { check("creates", creates(), 1); }
#[test]
fn holders_and_late_clean_ups() { check("holders", holders(), 1); }
#[test]
fn a_collector_between_calls() { check("collector", collector(), 1); }
#[test]
fn bare_ids_after_a_reuse() { check("bare", bare(), 1); }
#[test]
fn an_end_while_a_call_is_under_way() { check("ends", ends(), 1); }
#[test]
fn a_lost_ledger() { check("lost", lost(), 1); }

#[test]
fn each_broken_rule_is_caught() {
    for (broken, setup, property) in [
        (Broken::StaleDeletesCurrent, holders(), I1),
        (Broken::ReuseKeepsGeneration, holders(), I1),
        (Broken::ReleaseFreesAtOnce, holders(), I2),
        (Broken::AbsenceFrees, creates(), I2),
        (Broken::LostAnswerFrees, creates(), I2),
        (Broken::NoHorizon, creates(), I2),
        (Broken::NewbornBelieved, creates(), I2),
        (Broken::CountThenTake, creates(), I3),
        (Broken::OneLook, collector(), I1),
        (Broken::CondemnIgnoresOperations, collector(), I1),
        (Broken::ProofDespiteOperations, ends(), I2),
        (Broken::RebuiltIsProven, lost(), I1),
        (Broken::LeftoversStay, creates(), SETTLES),
    ] {
        catches(broken, setup, property);
    }
}
