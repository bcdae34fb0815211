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
        last: 3,
        luck: Luck { lost_ledgers: 1, ..NO_LUCK },
        broken: None,
    }
}

/// Every scene with the number of states it has at least: a model that no longer moves would hold any property.
fn scenes() -> [(&'static str, Setup, usize); 7] {
    let timid = Luck { timeouts: 1, ..NO_LUCK };
    [
        ("creates, a timeout, a lie", Setup { luck: Luck { lies: 1, ..timid }, ..creates() }, 1),
        ("creates, a crash, a refusal", Setup { luck: Luck { crashes: 1, refusals: 1, ..NO_LUCK }, ..creates() }, 1),
        ("holders, a crash, a DELETE twice", holders(), 1),
        ("a collector, a timeout", Setup { luck: timid, last: 4, ..collector() }, 1),
        ("bare ids", bare(), 1),
        ("ends, a lie", Setup { luck: Luck { lies: 1, ..NO_LUCK }, ..ends() }, 1),
        ("a lost ledger", lost(), 1),
    ]
}

#[test]
fn every_state_of_the_protocol_keeps_its_promises() {
    for (name, setup, at_least) in scenes() {
        let walk = walk(setup);
        eprintln!("{name}: {} states", walk.states);
        let failure = walk.failures.first_key_value();
        assert!(failure.is_none(), "{name}: {} fails after\n{}", failure.unwrap().0, failure.unwrap().1);
        assert!(walk.states >= at_least, "{name}: only {} states", walk.states);
    }
}

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
        let walk = walk(Setup { broken: Some(broken), ..setup });
        let way = walk.failures.get(property);
        let found = format!("{broken:?}: {:?} fail in {} states", walk.failures.keys(), walk.states);
        let Some(way) = way else { panic!("{found}, not {property}") };
        eprintln!("{found}:\n{way}");
    }
}
