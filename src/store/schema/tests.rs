//! What was written reads back, and what cannot be read says why.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::ids::{Generation, InstanceId, OperationId, OwnerId, TenantName, UpstreamName};
use crate::rules::entry::{Activity, Actor, Kill, Operation, Origin, Proof, Shape, State, Struck};
use crate::time::UnixMillis;

/// One entry with every field, as version 1 writes it. If this test fails, ledgers out there can no longer be read by
/// older programs: raise `FORMAT` and keep reading this text.
const GOLDEN: &str = r#"{"v":1,"marker":"0123456789abcdef0123456789abcdef","upstream":"cube","bucket":"shop/prod","owner":"shop.prod.web.run_207","tenant":"shop","origin":"created","instance":"00112233445566aa","generation":1800000000001,"holders":2,"sandbox":"fedcba9876543210fedcba9876543210","template":"tpl-1","cpu_milli":2000,"memory_mib":512,"metadata":"{\"a\":\"b\"}","claim":"c0ffee","answer":"{}","asked":1800000000000,"dispatched":1800000000002,"first_seen":1800000000003,"last_sign":1800000000004,"deadline":1800000000005,"claim_until":1800000000006,"operations":[{"id":"aabbccddeeff0011","kind":"pause","until":1800000000007}],"state":{"quarantined":{"actor":"recovery","since":1800000000008,"attempts":8,"absent_once":true}},"due":1800000000009}"#;

fn golden() -> Entry {
    let at = |n: u64| UnixMillis(1_800_000_000_000 + n);
    let kill = Kill { attempts: 8, absent_once: true, ..Kill::new(Actor::Recovery, at(8)) };
    let id = OperationId::new("aabbccddeeff0011").unwrap();
    Entry {
        marker: Marker::new("0123456789abcdef0123456789abcdef").unwrap(),
        upstream: UpstreamName::new("cube").unwrap(),
        bucket: Bucket::parse("shop/prod").unwrap(),
        owner: OwnerId::new("shop.prod.web.run_207").unwrap(),
        tenant: Some(TenantName::new("shop").unwrap()),
        origin: Origin::Created,
        instance: InstanceId::new("00112233445566aa").unwrap(),
        generation: Generation(at(1).0),
        holders: 2,
        claims: 1,
        lease: None,
        asked_for: None,
        incarnation: 0,
        hold: None,
        released: None,
        sandbox: Some(SandboxId::new("fedcba9876543210fedcba9876543210").unwrap()),
        template: "tpl-1".to_owned(),
        shape: Shape { cpu_milli: 2000, memory_mib: 512 },
        metadata: Some(r#"{"a":"b"}"#.to_owned()),
        claim: Some("c0ffee".to_owned()),
        answer: Some("{}".to_owned()),
        asked: at(0),
        dispatched: Some(at(2)),
        first_seen: Some(at(3)),
        last_sign: at(4),
        deadline: Some(at(5)),
        claim_until: Some(at(6)),
        operations: vec![Operation { id, kind: "pause".to_owned(), until: at(7) }],
        state: State::Quarantined(kill),
        due: Some(at(9)),
    }
}

#[test]
fn the_written_form_of_an_entry_does_not_change_unnoticed() {
    assert_eq!(String::from_utf8(encode_entry(&golden())).unwrap(), GOLDEN);
    assert_eq!(decode_entry(GOLDEN.as_bytes()), Ok(golden()));
    let states = [
        (State::Reserved, r#""reserved""#),
        (State::Dispatched, r#""dispatched""#),
        (State::Ambiguous { misses: 2 }, r#"{"ambiguous":{"misses":2}}"#),
        (State::Live(Activity::Running), r#""running""#),
        (State::Live(Activity::Paused(UnixMillis(7))), r#"{"paused":{"since":7}}"#),
        (State::Refused, r#""refused""#),
        (
            State::Killing(Kill {
                struck: Struck::Maybe,
                owed: true,
                ..Kill::new(Actor::Client, UnixMillis(7))
            }),
            r#"{"killing":{"actor":"client","since":7,"attempts":0,"absent_once":false,"struck":"maybe","owed":true}}"#,
        ),
        (
            State::Gone { at: UnixMillis(7), proof: Proof::Deleted, owed: true },
            r#"{"gone":{"at":7,"proof":"deleted","owed":true}}"#,
        ),
        (
            State::Gone { at: UnixMillis(7), proof: Proof::GetNotFound, owed: false },
            r#"{"gone":{"at":7,"proof":"get_not_found"}}"#,
        ),
    ];
    for (state, written) in states {
        assert_eq!(serde_json::to_string(&entry::WrittenState::from(state)).unwrap(), written);
    }
}

#[test]
fn a_record_of_a_later_format_is_refused_by_its_number() {
    let later = GOLDEN.replacen(r#""v":1"#, r#""v":2"#, 1);
    let what = decode_entry(later.as_bytes()).unwrap_err();
    assert_eq!(what, "it has format 2, and this version reads up to 1");
    let later_and_different = br#"{"v":3,"all":"is new"}"#;
    assert_eq!(
        decode_entry(later_and_different).unwrap_err(),
        "it has format 3, and this version reads up to 1"
    );
}

#[test]
fn garbage_and_cut_records_are_errors_that_say_what_is_wrong() {
    for cut in 0..GOLDEN.len() {
        let what = decode_entry(&GOLDEN.as_bytes()[..cut]).unwrap_err();
        assert!(what.contains("EOF"), "cut at {cut}: {what}");
    }
    let tampered = GOLDEN.replace("fedcba98", "../../..");
    assert!(decode_entry(tampered.as_bytes()).unwrap_err().contains("sandbox id"));
    let unknown = GOLDEN.replace("quarantined", "resting");
    assert!(decode_entry(unknown.as_bytes()).unwrap_err().contains("resting"));
    assert!(decode::<Meta>(b"\xff\xfe").unwrap_err().contains("line 1"));
}

#[test]
fn keys_and_sets_are_named_apart() {
    let bucket = Bucket::parse("a/b").unwrap();
    let names = [
        Key::Meta.to_string(),
        Key::Entry(golden().marker).to_string(),
        Key::Sandbox(golden().sandbox.unwrap()).to_string(),
        Key::Idempotency("h".to_owned()).to_string(),
        Key::Object(ObjectKind::Snapshot, "x".to_owned()).to_string(),
        Key::Object(ObjectKind::Volume, "x".to_owned()).to_string(),
        Set::Slots(bucket.clone()).to_string(),
        Set::AllSlots.to_string(),
        Set::State("live", bucket).to_string(),
        Set::AllState("live").to_string(),
        Set::Objects(ObjectKind::Volume).to_string(),
        Key::Instance(golden().instance).to_string(),
        Set::Instances.to_string(),
    ];
    let expected = [
        "meta",
        "e:0123456789abcdef0123456789abcdef",
        "s:fedcba9876543210fedcba9876543210",
        "i:h",
        "o:snapshot:x",
        "o:volume:x",
        "slots:a/b",
        "slots",
        "state:live:a/b",
        "state:live",
        "objects:volume",
        "n:00112233445566aa",
        "instances",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_entry_is_counted_where_it_holds_a_slot_and_nowhere_once_it_is_dead() {
    let names = |entry: &Entry| sets_of(entry).iter().map(ToString::to_string).collect::<Vec<_>>();
    let with = |state| Entry { state, ..golden() };
    let slots = ["slots:shop/prod", "slots"];
    let live = ["state:live:shop/prod", "state:live"];
    let paused = ["state:paused:shop/prod", "state:paused"];
    assert_eq!(names(&with(State::Live(Activity::Running))), [slots, live].concat());
    let asleep = State::Live(Activity::Paused(UnixMillis(1)));
    assert_eq!(names(&with(asleep)), [slots, live, paused].concat());
    assert_eq!(names(&golden())[2..], ["state:quarantined:shop/prod", "state:quarantined"]);
    assert!(names(&with(State::Refused)).is_empty());
    assert!(names(&with(State::Gone { at: UnixMillis(1), proof: Proof::Deleted, owed: false })).is_empty());
}

prop_compose! {
    fn times()(asked: u64, last_sign: u64, some in vec(option::of(any::<u64>()), 5)) -> (u64, u64, Vec<Option<UnixMillis>>) {
        (asked, last_sign, some.into_iter().map(|at| at.map(UnixMillis)).collect())
    }
}

fn kill() -> impl Strategy<Value = Kill> {
    let actor = prop_oneof![
        Just(Actor::Client),
        Just(Actor::Abandoned),
        Just(Actor::Recovery),
        Just(Actor::Operator)
    ];
    let struck = prop_oneof![Just(Struck::Never), Just(Struck::Maybe), Just(Struck::Surely)];
    let rest = (any::<u32>(), any::<bool>(), struck, any::<bool>());
    (actor, any::<u64>(), rest).prop_map(|(actor, since, (attempts, absent_once, struck, owed))| Kill {
        actor,
        since: UnixMillis(since),
        attempts,
        absent_once,
        struck,
        owed,
    })
}

fn state() -> impl Strategy<Value = State> {
    let proof = prop_oneof![
        Just(Proof::Deleted),
        Just(Proof::DeleteNotFound),
        Just(Proof::GetNotFound),
        Just(Proof::NeverCame),
        Just(Proof::NeverSent)
    ];
    prop_oneof![
        Just(State::Reserved),
        Just(State::Dispatched),
        any::<u32>().prop_map(|misses| State::Ambiguous { misses }),
        Just(State::Live(Activity::Running)),
        any::<u64>().prop_map(|since| State::Live(Activity::Paused(UnixMillis(since)))),
        kill().prop_map(State::Killing),
        kill().prop_map(State::Quarantined),
        Just(State::Refused),
        (any::<u64>(), proof, any::<bool>()).prop_map(|(at, proof, owed)| State::Gone {
            at: UnixMillis(at),
            proof,
            owed
        }),
    ]
}

prop_compose! {
    fn names()(
        marker in "[0-9a-f]{32}",
        bucket in "[A-Za-z0-9][A-Za-z0-9._-]{0,62}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        owner in "[A-Za-z0-9_.-]{1,512}",
        sandbox in option::of("[0-9a-f]{32}"),
        tenant in option::of("[a-z][a-z0-9]{0,9}"),
    ) -> Entry {
        Entry {
            marker: Marker::new(&marker).unwrap(),
            bucket: Bucket::parse(&bucket).unwrap(),
            owner: OwnerId::new(&owner).unwrap(),
            sandbox: sandbox.map(|id| SandboxId::new(&id).unwrap()),
            tenant: tenant.map(|name| TenantName::new(&name).unwrap()),
            ..golden()
        }
    }
}

prop_compose! {
    fn entries()(
        named in names(),
        origin in prop_oneof![Just(Origin::Created), Just(Origin::Imported), Just(Origin::Round)],
        (generation, holders, cpu_milli, memory_mib) in any::<(u64, u32, u64, u64)>(),
        template in any::<String>(),
        (metadata, claim, answer) in any::<(Option<String>, Option<String>, Option<String>)>(),
        (asked, last_sign, some) in times(),
        operations in vec(("[0-9a-f]{16}", any::<String>(), any::<u64>()), 0..4),
        state in state(),
    ) -> Entry {
        let operation = |(id, kind, until): (String, String, u64)| {
            Operation { id: OperationId::new(&id).unwrap(), kind, until: UnixMillis(until) }
        };
        Entry {
            origin, template, metadata, claim, answer, state, holders,
            generation: Generation(generation),
            shape: Shape { cpu_milli, memory_mib },
            asked: UnixMillis(asked),
            last_sign: UnixMillis(last_sign),
            dispatched: some[0], first_seen: some[1], deadline: some[2], claim_until: some[3], due: some[4],
            operations: operations.into_iter().map(operation).collect(),
            ..named
        }
    }
}

proptest! {
    #[test]
    fn every_entry_reads_back_as_it_was(entry in entries()) {
        prop_assert_eq!(decode_entry(&encode_entry(&entry)), Ok(entry));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(decode_entry(&bytes).is_err());
    }
}

#[test]
fn a_key_that_was_remembered_before_there_were_leases_is_still_known() {
    let old = br#"{"request":"ab","marker":"0123456789abcdef0123456789abcdef","expires":7}"#;
    let read: Idempotency = decode(old).unwrap();
    assert_eq!((read.expires, read.generation), (7, None));
    assert_eq!(encode(&read), old);
}
