//! What only Redis can do to a ledger: break, forget its scripts, lose replies, hold what is not ours; and several wardens
//! on one.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod again;
mod cost;
mod faults;
mod foreign;
mod leader;
mod leases;
mod limits;
mod opening;
mod places;
mod several;

use cubewarden::ids::ObjectKind;
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Batch, Committed, Store};

const TEMPLATE: &str = "tpl-000000000000000000000001";

fn body() -> String {
    format!(r#"{{"templateID":"{TEMPLATE}","timeout":300}}"#)
}

fn volume(id: &str) -> Key {
    Key::Object(ObjectKind::Volume, id.to_owned())
}

/// A batch that takes a place among all slots, and writes a record.
fn take(id: &str) -> Batch {
    Batch {
        expect: vec![(volume(id), 0)],
        put: vec![(volume(id), b"x".to_vec())],
        join: vec![(Set::AllSlots, id.to_owned())],
        ..Batch::default()
    }
}

async fn taken(store: &dyn Store) -> Vec<String> {
    store.members(&Set::AllSlots, None, 10_000).await.unwrap()
}

fn is_done(committed: &Committed) -> bool {
    matches!(committed, Committed::Done(_))
}
