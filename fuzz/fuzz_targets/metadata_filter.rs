//! Any query is a filter or a refusal.
#![no_main]

use cubewarden::calls::classify::Prefix;
use cubewarden::calls::filter::ListQuery;
use cubewarden::cube::api::Listed;

libfuzzer_sys::fuzz_target!(|query: &str| {
    let item = r#"{"sandboxID":"0cbc7f6b7af7453fac450e3313bcc679","metadata":{"a":"b"}}"#;
    let item = Listed::read(item).expect("the item is well formed");
    for prefix in [Prefix::Root, Prefix::V2] {
        if let Ok(query) = ListQuery::parse(prefix, query) {
            let _ = query.page(vec![item.clone()]);
        }
    }
});
