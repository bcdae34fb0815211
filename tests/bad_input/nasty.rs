//! The table of nasty cases, in both modes.

use super::{BASE, Bench, Mode, Sent, cases};
use crate::cube::Profile;
use crate::proxy::compare::ask;

#[tokio::test]
async fn a_create_that_two_readers_could_understand_differently_is_400_and_never_sent() {
    for mode in Mode::BOTH {
        let bench = Bench::of(mode, Profile::V070).await;
        for sent in cases::refused_creates().iter().chain(&cases::refused_headers()) {
            let heard = bench.survives(sent).await;
            assert_eq!((heard.status, heard.reached), (400, 0), "{mode:?} {}: {heard:?}", sent.shown());
            assert_eq!(heard.json()["error_code"], "BAD_REQUEST", "{}", sent.shown());
        }
        bench.is_sound();
    }
}

#[tokio::test]
async fn an_odd_create_is_made_or_refused_in_clear_words_and_holds_nothing_if_it_failed() {
    for (mode, profile) in
        [(Mode::Open, Profile::V051), (Mode::Open, Profile::V070), (Mode::Tenants, Profile::V070)]
    {
        let bench = Bench::of(mode, profile).await;
        for sent in cases::odd_creates() {
            bench.survives(&sent).await;
            let on_v2 = Sent { line: "POST /v2/sandboxes".to_owned(), ..sent };
            bench.survives(&on_v2).await;
        }
        bench.is_sound();
    }
}

#[tokio::test]
async fn a_path_that_names_nothing_is_404_or_422_and_touches_nothing() {
    for mode in Mode::BOTH {
        let bench = Bench::of(mode, Profile::V070).await;
        for sent in cases::nasty_paths(&bench.sandbox) {
            // What speaks of nothing that anybody owns is Cube's to answer, in its own words.
            let heard = bench.send(&sent).await;
            let clear = heard.well_said() || heard.reached > 0;
            assert!((400..500).contains(&heard.status) && clear, "{mode:?} {}: {heard:?}", sent.shown());
            assert_eq!(bench.warden.held().await, 1, "{}", sent.shown());
        }
        bench.is_sound();
    }
}

#[tokio::test]
async fn a_filter_of_any_kind_is_evaluated_or_400() {
    for mode in Mode::BOTH {
        let bench = Bench::of(mode, Profile::V070).await;
        for (status, sent) in cases::nasty_queries() {
            let heard = bench.survives(&sent).await;
            assert_eq!(heard.status, status, "{mode:?} {}: {heard:?}", sent.shown());
        }
        bench.is_sound();
    }
}

#[tokio::test]
async fn a_small_body_of_any_kind_is_400_or_cubes_to_answer_and_ends_nothing() {
    for (mode, profile) in
        [(Mode::Open, Profile::V051), (Mode::Tenants, Profile::V060), (Mode::Open, Profile::V070)]
    {
        let bench = Bench::of(mode, profile).await;
        for sent in cases::small_bodies(&bench.sandbox) {
            bench.survives(&sent).await;
        }
        bench.is_sound();
    }
}

/// I7: in open mode an application's metadata is its own, whatever its keys are called.
#[tokio::test]
async fn in_open_mode_metadata_that_is_no_name_to_us_is_not_refused() {
    let bench = Bench::of(Mode::Open, Profile::V070).await;
    let long = "r".repeat(2000);
    for metadata in [
        r#"{"env":"my env"}"#,
        r#"{"owner_id":"a@b.c"}"#,
        r#"{"namespace":"../x","env":"-"}"#,
        r#"{"project":"p q/ü","run":""}"#,
        r#"{"owner_id":"","namespace":""}"#,
        &format!(r#"{{"owner_id":"{long}"}}"#),
        &format!(r#"{{"session_id":"{long}"}}"#),
    ] {
        let sent = Sent::create(format!(r#"{{"templateID":"{BASE}","metadata":{metadata}}}"#));
        let heard = bench.survives(&sent).await;
        assert_eq!(heard.status, 201, "{metadata}: {heard:?}");
    }
    bench.is_sound();
}

#[tokio::test]
async fn with_tenants_a_wrong_or_doubtful_key_is_401_for_everything() {
    let bench = Bench::of(Mode::Tenants, Profile::V070).await;
    let keys = [
        "",
        "X-API-Key: wrong\r\n",
        "X-API-Key: e2b_5111\r\nX-API-Key: e2b_5111\r\n",
        "X-API-Key: \u{e9}\r\n",
        "Authorization: Basic ZTJi\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: bearer e2b_5111\r\n",
    ];
    for key in keys {
        for line in
            ["GET /v2/sandboxes", "POST /sandboxes", "GET /templates", "DELETE /sandboxes/x", "FROB /nope"]
        {
            let before = bench.cube.counters().0;
            let answer = ask(bench.warden.addr(), format!("{line} HTTP/1.1\r\nHost: h\r\n{key}\r\n")).await;
            assert!(
                answer.status_line.contains(" 401 ") && answer.body.contains("UNAUTHENTICATED"),
                "{answer:?}"
            );
            assert_eq!(bench.cube.counters().0, before, "{key:?} {line}");
        }
    }
    bench.is_sound();
}
