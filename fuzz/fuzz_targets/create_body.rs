//! Any bytes are a create that can be edited to JSON, or a refusal.
#![no_main]

use bytes::Bytes;
use cubewarden::cube::api::{CreateBody, Edits, Lifecycle, OnTimeout};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(body) = CreateBody::read(&Bytes::copy_from_slice(bytes)) else { return };
    let edited = body.edit(&Edits {
        set_metadata: vec![("cw_marker".into(), "m".into())],
        set_timeout: Some(60),
        lifecycle: Some(Lifecycle { on_timeout: Some(OnTimeout::Pause), auto_resume: Some(true) }),
        ..Edits::default()
    });
    let again = CreateBody::read(&edited.body).expect("an edited create is a create");
    assert_eq!(again.timeout, Some(60));
});
