//! Clean-ups, answers and repeats that come late, after the sandbox has gone to another holder or has risen from the dead.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::SandboxId;
use serde_json::json;

use super::holders::{acquire, by_lease, delete, deletes_of, first, world};
use super::world::{Call, TEMPLATE, World};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::Answer;

const SECOND: Duration = Duration::from_secs(1);
const QUALIFIED: &str = "[bucket_defaults]\nlimit = 3\nreuse = true\nids = \"qualified\"\n";

fn status(world: &World, call: Call) -> u16 {
    world.finish(call).unwrap().status.as_u16()
}

fn begin_acquire(world: &World, lease: &str, timeout: u64) -> Call {
    let body = json!({"run": "r", "lease_id": lease, "template_id": TEMPLATE, "timeout": timeout});
    world.call("POST", "/v1/leases", &body.to_string())
}

fn generation(answer: &Answer) -> u64 {
    answer.json()["generation"].as_u64().unwrap()
}

fn metric(world: &World, name: &str) -> u64 {
    let text = world.warden().warden.metrics.render(None);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no metric {name} in {text}")).parse().unwrap()
}

/// EB05
#[test]
fn a_delete_of_an_earlier_generation_is_fenced_and_counted_and_one_of_the_present_is_sent() {
    let world = world(QUALIFIED);
    let held = first(&world, 86_400);
    // A pause and a resume make a new incarnation of the same holder's sandbox, not a new holder.
    for (call, body) in [("pause", ""), ("resume", r#"{"timeout":86400}"#)] {
        let answer = world.ask("POST", &format!("/sandboxes/{}/{call}", held.qualified), body).unwrap();
        assert!(answer.status.is_success(), "{call}: {answer:?}");
    }
    let resumed = world.entry_of(&held.id).unwrap();
    assert_eq!((resumed.incarnation, resumed.holders), (1, 1));

    let second = acquire(&world, "lease-b", 86_400).unwrap();
    assert!(generation(&second) > resumed.generation.0);
    let fenced = "cubewarden_decisions_total{decision=\"fenced\"}";
    let before = metric(&world, fenced);
    assert_eq!(status(&world, delete(&world, &held.qualified)), 404);
    assert_eq!((deletes_of(&world, &held.id), metric(&world, fenced) - before), (0, 1));
    let present = second.json()["sandbox"]["sandboxID"].as_str().unwrap().to_owned();
    assert_eq!(status(&world, delete(&world, &present)), 204);
    assert_eq!((deletes_of(&world, &held.id), world.alive().len()), (1, 0));
}

/// EB04
#[test]
fn what_rises_after_its_lease_was_released_is_killed_again_and_its_owners_next_sandbox_is_another() {
    let mut world = world(QUALIFIED);
    world.tick_inventory();
    let held = first(&world, 86_400);
    world.advance(200 * SECOND);
    world.cube.fault(Fault::Resurrect { after_ms: 5_000 }.on(Kind::Delete).times(1));
    assert_eq!(by_lease(&world, "releases", &held, "lease-a").unwrap().status, 202);
    world.settle();
    assert_eq!((world.alive().len(), world.entries().len()), (0, 0));
    world.advance(5 * SECOND);
    assert_eq!(world.alive(), [held.id.clone()].into(), "a resume that was in flight has brought it back");

    let next = acquire(&world, "lease-b", 86_400).unwrap();
    assert_eq!(next.status, 201, "what is dead is nobody's to reuse");
    for id in [&held.id, &held.qualified] {
        let connect = world.ask("POST", &format!("/sandboxes/{id}/connect"), r#"{"timeout":60}"#);
        assert_eq!(connect.unwrap().status, 404);
    }
    for _ in 0..2 {
        world.tick_inventory();
        world.check_counted("risen");
        world.tick_due();
    }
    assert_eq!(deletes_of(&world, &held.id), 2, "within two sweeps");
    assert_eq!(world.alive(), [next.text("sandbox_id")].into());
    world.reconcile();
    world.check_settled("risen and killed again");
    assert_eq!(world.alive(), [next.text("sandbox_id")].into());
}

/// OS08
#[test]
fn an_owner_that_ends_all_that_is_its_own_sends_no_delete_to_another_owner_of_its_bucket() {
    let world = world(QUALIFIED);
    let held = first(&world, 86_400);
    let body = json!({"run": "other", "lease_id": "lease-o", "template_id": TEMPLATE, "timeout": 86_400});
    let other = world.ask("POST", "/v1/leases", &body.to_string()).unwrap();
    let (others, other_owner) = (other.text("sandbox_id"), other.text("owner_id"));
    // The other's name does not make its sandbox anybody's: an end needs owner and lease as they stand together.
    for (owner, lease) in [(&other_owner, "lease-a"), (&held.owner, "lease-o")] {
        let body = json!({"owner_id": owner, "lease_id": lease}).to_string();
        let answer = world.ask("POST", "/v1/lease-releases", &body).unwrap();
        assert_eq!((answer.status.as_u16(), answer.text("error_code").as_str()), (409, "LEASE_MISMATCH"));
    }
    assert_eq!(by_lease(&world, "releases", &held, "lease-a").unwrap().status, 202);
    world.settle();
    assert_eq!((deletes_of(&world, &held.id), deletes_of(&world, &others)), (1, 0));
    assert_eq!(world.alive(), [others].into());
}

#[test]
fn a_holder_that_was_overtaken_while_its_sandbox_woke_is_told_what_it_was_given_not_what_its_successor_was() {
    let world = world(QUALIFIED);
    let held = first(&world, 86_400);
    assert_eq!(world.ask("POST", &format!("/sandboxes/{}/pause", held.qualified), "").unwrap().status, 204);
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Connect).times(1));
    let slow = begin_acquire(&world, "lease-b", 86_400);
    world.settle();
    assert_eq!(world.cube.held(), 1, "it wakes the sandbox");
    let successor = acquire(&world, "lease-c", 86_400).unwrap();
    assert_eq!(successor.status, 200, "{successor:?}");
    world.cube.release();
    let overtaken = world.finish(slow).unwrap();
    assert_eq!((overtaken.status.as_u16(), overtaken.text("lease_id").as_str()), (200, "lease-b"));
    assert!(generation(&overtaken) < generation(&successor), "{overtaken:?} {successor:?}");
    let id_of = |answer: &Answer| answer.json()["sandbox"]["sandboxID"].as_str().unwrap().to_owned();
    assert_eq!(status(&world, delete(&world, &id_of(&overtaken))), 404, "its late clean-up is fenced");
    assert_eq!(world.alive(), [held.id].into());
    assert_eq!(status(&world, delete(&world, &id_of(&successor))), 204);
}

#[test]
fn a_repeat_with_its_idempotency_key_is_not_told_the_token_of_whoever_has_taken_the_sandbox_since() {
    let world = world(QUALIFIED);
    let body = json!({"templateID": TEMPLATE, "timeout": 300, "metadata": {"session_id": "r"}}).to_string();
    let keyed = world.client().with("idempotency-key", "k-1");
    let ask = |caller| world.finish(world.call_as(caller, "POST", "/sandboxes", &body)).unwrap();
    let first = ask(keyed.clone());
    assert_eq!(ask(keyed.clone()).body, first.body, "the same answer");
    let second = ask(world.client());
    assert_ne!(second.text("sandboxID"), first.text("sandboxID"), "another generation");
    let repeat = ask(keyed);
    assert_eq!((repeat.status.as_u16(), repeat.text("error_code").as_str()), (409, "LEASE_SEALED"));
    assert_eq!(repeat.header("x-cube-lease-id"), None);
    assert_eq!(status(&world, delete(&world, &first.text("sandboxID"))), 404);
    assert_eq!(status(&world, delete(&world, &second.text("sandboxID"))), 204);
}

/// Its warden was taken for dead meanwhile: another found the sandbox, and the owner's next process took it.
#[test]
fn an_answer_that_comes_after_the_sandbox_was_found_and_taken_tells_nobody_of_it_and_shortens_nothing() {
    let mut world = world(QUALIFIED);
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let first = begin_acquire(&world, "lease-a", 300);
    world.settle();
    let marker = world.entries()[0].marker.clone();
    let ledger = Arc::clone(&world.warden().warden.ledger);
    let lost = world.begin(async move { ledger.lost(&marker, "taken for dead").await.unwrap() });
    world.settle();
    world.outcome(lost);
    world.tick_due();
    let second = acquire(&world, "lease-b", 900).unwrap();
    assert_eq!(second.status, 200, "{second:?}");
    let taken = world.entry_of(&second.text("sandbox_id")).unwrap();
    world.cube.release();
    let late = world.finish(first).unwrap();
    assert_eq!((late.status.as_u16(), late.text("error_code").as_str()), (504, "OUTCOME_UNKNOWN"));
    let after = world.entry_of(SandboxId::new(&second.text("sandbox_id")).unwrap().as_str()).unwrap();
    assert_eq!((after.generation, after.deadline, after.holders), (taken.generation, taken.deadline, 1));
    assert!(after.answer.is_some(), "the traffic token, which Cube gives only once, is kept for its holder");
    let present = second.json()["sandbox"]["sandboxID"].as_str().unwrap().to_owned();
    assert_eq!(status(&world, delete(&world, &present)), 204);
}
