//! The runs: who is there and what may go wrong; what each must see, and what each must catch.
#![expect(clippy::print_stderr, reason = "the number of states is part of what is shown")]

use cubewarden::rules::entry::Keeper;

use super::checker::{I1, I2, I3, SETTLES, walk};
use super::setup::{Asked, AtItsEnd, Broken, Client, Id, Luck, Setup, Wish};

const NO_LUCK: Luck = Luck { crashes: 0, timeouts: 0, duplicates: 0, lies: 0, refusals: 0, lost_ledgers: 0 };

/// One create and its end.
fn create() -> Setup {
    Setup {
        wishes: &[Asked(Client::A, 0, Wish::Create), Asked(Client::A, 0, Wish::Delete(Id::Bare))],
        ..creates()
    }
}

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

/// The same, with A giving up more than is its own while B's call is under way.
fn bare_twice() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::B, 1, Wish::Create),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
            Asked(Client::B, 1, Wish::Connect(Id::Qualified)),
        ],
        last: 2,
        ..bare()
    }
}

/// A's own end while its call is under way.
fn ends() -> Setup {
    Setup {
        wishes: &[
            Asked(Client::A, 0, Wish::Create),
            Asked(Client::A, 1, Wish::Connect(Id::Bare)),
            Asked(Client::A, 0, Wish::Delete(Id::Bare)),
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

/// The same, each with all its misfortunes: minutes.
fn deep_scenes() -> [(&'static str, Setup, usize); 8] {
    [
        ("a create", create(), 100_000),
        ("creates", creates(), 100_000),
        ("holders", holders(), 100_000),
        ("a collector", collector(), 100_000),
        ("bare ids", bare(), 100_000),
        ("bare ids twice", bare_twice(), 10_000),
        ("ends", ends(), 100_000),
        ("a lost ledger", lost(), 100_000),
    ]
}

#[expect(clippy::disallowed_methods, reason = "how somebody with time asks for more")]
fn is_deep() -> bool {
    std::env::var("CUBEWARDEN_TEST_DEEP_PROTOCOL").is_ok()
}

/// Every scene with the number of states it has at least: a model that no longer moves would hold any property.
fn scenes() -> [(&'static str, Setup, usize); 8] {
    let timid = Luck { timeouts: 1, ..NO_LUCK };
    [
        ("a create, a timeout, a lie", Setup { luck: Luck { lies: 1, ..timid }, ..create() }, 70_000),
        ("creates, a timeout", Setup { luck: timid, last: 2, ..creates() }, 20_000),
        (
            "creates, a crash, a refusal",
            Setup { luck: Luck { crashes: 1, refusals: 1, ..NO_LUCK }, last: 2, ..creates() },
            30_000,
        ),
        ("holders, a DELETE twice", Setup { luck: Luck { duplicates: 1, ..NO_LUCK }, ..holders() }, 90_000),
        ("a collector", Setup { luck: NO_LUCK, last: 4, ..collector() }, 5_000),
        ("bare ids", Setup { last: 2, ..bare() }, 60_000),
        ("ends, a lie", Setup { luck: Luck { lies: 1, ..NO_LUCK }, last: 2, ..ends() }, 5_000),
        ("a lost ledger", Setup { last: 2, collector: None, ..lost() }, 5_000),
    ]
}

#[test]
fn every_state_of_the_protocol_keeps_its_promises() {
    let scenes = if is_deep() { deep_scenes() } else { scenes() };
    for (name, setup, at_least) in scenes {
        let walk = walk(setup);
        eprintln!("{name}: {} states", walk.states);
        if let Some((property, way)) = walk.failures.first_key_value() {
            panic!("{name}: {property} fails after\n{way}");
        }
        assert!(walk.states >= at_least, "{name}: only {} states", walk.states);
    }
}

#[test]
fn each_broken_rule_is_caught() {
    for (broken, setup, property) in [
        (Broken::StaleDeletesCurrent, holders(), I1),
        (Broken::ReuseKeepsGeneration, holders(), I1),
        (Broken::ReleaseFreesAtOnce, holders(), I2),
        (Broken::AbsenceFrees, create(), I2),
        (Broken::LostAnswerFrees, creates(), I2),
        (Broken::EarlyMissesCount, Setup { luck: Luck { timeouts: 1, lies: 1, ..NO_LUCK }, ..create() }, I2),
        (Broken::NewbornBelieved, create(), I2),
        (Broken::CountThenTake, creates(), I3),
        (Broken::OneLook, collector(), I1),
        (Broken::CondemnIgnoresOperations, bare_twice(), I1),
        (Broken::ProofDespiteOperations, Setup { luck: Luck { lies: 1, ..NO_LUCK }, last: 2, ..ends() }, I2),
        (Broken::RebuiltIsProven, Setup { last: 2, collector: None, ..lost() }, I1),
        (Broken::LeftoversStay, create(), SETTLES),
    ] {
        let walk = walk(Setup { broken: Some(broken), ..setup });
        let way = walk.failures.get(property);
        let found = format!("{broken:?}: {:?} fail in {} states", walk.failures.keys(), walk.states);
        let Some(way) = way else { panic!("{found}, not {property}") };
        eprintln!("{found}:\n{way}");
    }
}
