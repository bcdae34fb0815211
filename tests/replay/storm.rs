//! A storm of creates, ten times what the node can carry, for ten minutes, while sandboxes go on being ended.
//!
//! The node is a small one, so that the storm is thousands of calls and not a hundred thousand: it carries two writes in three
//! seconds, and beside 16 others a write is not answered in time. Creates come ten times as often, each from a client of its own that
//! tries once and keeps what it gets; one sandbox of a stock is ended every five seconds, by somebody who asks until it is gone.
//! The same deletes without the storm are the measure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cubewarden::rules::entry::State;
use cubewarden::time::{Chance, Clock as _};

use super::people::{INSTANCE, Person};
use super::stage::Stage;
use crate::cube::WritePath;
use crate::cube::faults::Fault;

const NODE: WritePath = WritePath {
    base_ms: 6000,
    ample: 1000,
    per_resident_ms: 0,
    per_write_permille: 250,
    gives_up_ms: 60_000,
};
const STORM: Duration = Duration::from_secs(600);
const CREATE_EVERY: Duration = Duration::from_millis(150);
const DELETE_EVERY: Duration = Duration::from_secs(5);
/// Longer than a create whose answer was lost is looked for.
const AFTERMATH: Duration = Duration::from_secs(1200);

struct Node {
    stage: Stage,
    stock: BTreeSet<String>,
}

impl Node {
    fn new(warden: bool) -> Self {
        let mut stage = Stage::new(10);
        let labels = BTreeMap::from([(INSTANCE.to_owned(), "stock".to_owned())]);
        let stock: BTreeSet<String> = stage.cube.seed_sandboxes(130, &labels).into_iter().collect();
        if warden {
            stage.start_warden(10);
            stage.pass(Duration::from_secs(60));
        }
        stage.cube.fault(Fault::StrainedWrites(NODE));
        Self { stage, stock }
    }

    fn person(&self, seed: u64) -> Arc<Person> {
        Arc::new(Person {
            caller: self.stage.caller(),
            clock: self.stage.clock.clone(),
            tally: Arc::clone(&self.stage.tally),
            chance: Chance::seeded(seed),
        })
    }

    fn deletes_run(&self) {
        let (person, stock) = (self.person(1), self.stock.clone());
        self.stage.enters(async move {
            for id in stock {
                let this = Arc::clone(&person);
                tokio::spawn(async move { this.kill(&id).await });
                person.clock.sleep(DELETE_EVERY).await;
            }
        });
    }

    fn creates_storm(&self) {
        let person = self.person(2);
        self.stage.enters(async move {
            let end = person.clock.now().plus(STORM);
            while person.clock.now() < end {
                let this = Arc::clone(&person);
                tokio::spawn(async move { drop(this.try_create().await) });
                person.clock.sleep(CREATE_EVERY).await;
            }
        });
    }

    fn alive(&self) -> BTreeSet<String> {
        self.stage.cube.alive().into_iter().map(|one| one.id).collect()
    }

    /// How many of the stock were ended in those ten minutes.
    fn ended(&self) -> usize {
        self.stage.pass(STORM);
        self.stock.difference(&self.alive()).count()
    }
}

#[test]
fn in_a_storm_of_creates_deletes_keep_nine_tenths_of_their_pace_and_everything_is_accounted_for_after_it() {
    let calm = Node::new(true);
    calm.deletes_run();
    let calm = calm.ended();

    let bare = Node::new(false);
    bare.deletes_run();
    bare.creates_storm();
    let bare = bare.ended();
    assert!(bare * 10 < calm, "without a warden the storm is none: {bare} of {calm}");

    let node = Node::new(true);
    node.deletes_run();
    node.creates_storm();
    let ended = node.ended();
    let told = node.stage.tally.kept();
    println!(
        "ended in ten minutes: {calm} when calm, {ended} in the storm, {bare} without a warden; created {}",
        told.len()
    );
    assert!(ended * 10 >= calm * 9, "{ended} of {calm}");
    assert!(!told.is_empty(), "a storm is no reason to serve nobody");

    node.stage.pass(AFTERMATH);
    let told = node.stage.tally.kept();
    let kept: BTreeSet<String> = node.alive().difference(&node.stock).cloned().collect();
    assert_eq!(kept, told, "what is there, and what clients were told of");
    let entries = node.stage.ask(node.stage.warden().entries());
    assert!(entries.iter().all(|entry| matches!(entry.state, State::Live(_))), "{entries:?}");
    let admitted: BTreeSet<String> =
        entries.iter().map(|entry| entry.sandbox.as_ref().unwrap().to_string()).collect();
    assert_eq!(admitted, node.alive(), "what holds a slot, and what is there");
}
