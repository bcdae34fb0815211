//! Any text is a configuration or a list of problems.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = cubewarden::config::load(text, std::iter::empty());
});
