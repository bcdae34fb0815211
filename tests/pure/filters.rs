//! The filters and pages of a list, for any text.

use cubewarden::calls::classify::Prefix;
use cubewarden::calls::filter::ListQuery;
use cubewarden::cube::api::Listed;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::cases;

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn item(n: u32, second: u8, metadata: &serde_json::Value) -> Listed {
    let started = format!("2026-01-01T00:00:{:02}.123456789Z", second % 60);
    let item = json!({"sandboxID": format!("{n:032x}"), "startedAt": started, "state": "running", "metadata": metadata});
    Listed::read(&item.to_string()).unwrap()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn any_pair_is_found_by_a_filter_that_is_encoded_once_twice_or_thrice(key in ".{1,8}", value in ".{0,8}") {
        let found = |pair: String, value: &str| {
            let query = ListQuery::parse(Prefix::V2, &format!("metadata={pair}")).unwrap();
            query.matches(&item(1, 0, &json!({key.clone(): value})))
        };
        let thrice = encode(&format!("{}={}", encode(&encode(&key)), encode(&encode(&value))));
        let twice = encode(&format!("{}={}", encode(&key), encode(&value)));
        let other = [&*value, "!"].concat();
        prop_assert!(found(thrice.clone(), &value));
        prop_assert!(found(twice.clone(), &value));
        prop_assert!(!found(thrice, &other));
        prop_assert!(!found(twice, &other));
        if !key.contains(['&', '=']) && !value.contains('&') {
            prop_assert!(found(encode(&[&*key, "=", &*value].concat()), &value));
        }
    }

    #[test]
    fn any_query_is_a_filter_or_a_refusal(query in "([a-zA-Z]{0,9}|metadata|state|limit|nextToken|[%&=+;0-9a-fü,-]){0,20}") {
        if let Ok(query) = ListQuery::parse(Prefix::V2, &query) {
            let _ = query.page(vec![item(1, 0, &json!({"a": "b"}))]);
        }
    }

    #[test]
    fn pages_put_together_are_the_whole_list(seconds in vec(any::<u8>(), 0..30), limit in 1..9usize) {
        let items: Vec<Listed> = (0..).zip(&seconds).map(|(n, second)| item(n, *second, &json!({}))).collect();
        let whole = ListQuery::parse(Prefix::V2, "").unwrap().page(items.clone());
        prop_assert!(whole.next.is_none());
        let mut query = format!("limit={limit}");
        let mut together = Vec::new();
        loop {
            let page = ListQuery::parse(Prefix::V2, &query).unwrap().page(items.clone());
            prop_assert!(page.items.len() <= limit);
            together.extend(page.items);
            let Some(next) = page.next else { break };
            query = format!("limit={limit}&nextToken={next}");
        }
        prop_assert_eq!(together, whole.items);
    }
}
