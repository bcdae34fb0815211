//! Mends and the table of answers, for any bytes.

use cubewarden::calls::mends::{error_body, item, list};
use cubewarden::calls::settings::Compat;
use cubewarden::cube::outcome::{Asked, absence, cube_code, outcome, paused_refuses_delete, retry_after};
use cubewarden::cube::profile::Profile;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::cases;

fn items() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just(r#""endAt" : null"#.to_owned()),
        Just(r#""state":"pausing""#.to_owned()),
        Just(r#" "sandboxID" : "x" "#.to_owned()),
        Just(r#""diskSizeMB":0.0"#.to_owned()),
        Just(r#""metadata":{"state":"pausing","a":[1]}"#.to_owned()),
    ];
    prop::collection::hash_set(field, 0..5)
        .prop_map(|fields| format!("{{{}}}", fields.into_iter().collect::<Vec<_>>().join(",")))
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_mended_list_is_a_list_that_needs_no_mend(items in vec(items(), 0..4)) {
        let before = format!("[{} ]", items.join(" , "));
        let once = list(&Compat::default(), "e2b-python-sdk/2.63.0", &before);
        let parsed: Vec<Value> = serde_json::from_str(&once.text).unwrap();
        prop_assert!(parsed.iter().all(|item| !item["endAt"].is_null() && item["state"] != "pausing"));
        let twice = list(&Compat::default(), "e2b-python-sdk/2.63.0", &once.text);
        prop_assert_eq!(twice.text, once.text);
        prop_assert!(twice.made.is_empty());
        let other = list(&Compat::default(), "curl/8", &before);
        prop_assert_eq!(other.text, before);
    }

    #[test]
    fn any_error_body_is_json_with_its_status_in_the_end(status in 400..600u16, body in vec(any::<u8>(), 0..40)) {
        let mended = error_body(&Compat::default(), status, &body);
        let bytes = mended.clone().map_or(body, String::into_bytes);
        let parsed: Value = serde_json::from_slice(&bytes).unwrap();
        prop_assert!(mended.is_none() || parsed["code"] == status);
    }

    #[test]
    fn no_answer_makes_the_readers_panic(
        status in any::<u16>(),
        body in prop_oneof![
            ".{0,40}",
            ".{0,20}".prop_map(|text| serde_json::json!({"code": 500, "message": text}).to_string()),
            "[0-9: -]{0,12}".prop_map(|text| format!(r#"{{"message":"CubeMaster returned error code {text}"}}"#)),
            ".{0,9}".prop_map(|text| serde_json::json!({"message": format!("retry DELETE after {text}")}).to_string()),
        ],
    ) {
        let body = body.as_bytes();
        for asked in [Asked::Create, Asked::Delete, Asked::Write, Asked::Get] {
            let _ = (outcome(asked, status, body), absence(asked, status, body, &Profile::default()));
        }
        let _ = (paused_refuses_delete(status, body), retry_after(None, body), cube_code(body));
        let _ = item(&Compat::default(), "e2b-js-sdk/2", std::str::from_utf8(body).unwrap());
    }
}
