//! Any text is a call with a name of the closed set; what goes upstream under another path means the same there.
#![no_main]

use cubewarden::calls::classify::{Call, classify};
use http::Method;

libfuzzer_sys::fuzz_target!(|path: &str| {
    for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
        let call = classify(&method, path);
        assert!(Call::all_names().contains(&call.name()));
        if let Some(upstream) = call.upstream_path() {
            assert_eq!(classify(&method, &upstream).name(), call.name());
        }
    }
});
