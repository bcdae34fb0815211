//! How logs are written.
//!
//! Must stay true: a field has one name everywhere, with its unit at the end (`marker`, `sandbox_id`, `duration_ms`); logs
//! go to standard error, which leaves standard output to the commands. Never secrets, bodies or personal data.

use std::io::{IsTerminal, stderr};

use tracing::Subscriber;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// How logs are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A level, or directives such as `info,cubewarden::tasks=debug`.
    pub level: String,
    /// For people or for machines.
    pub format: Format,
}

/// For people or for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

/// Whether a text can be a [`Settings::level`].
#[must_use]
pub fn is_level(text: &str) -> bool {
    !text.trim().is_empty() && EnvFilter::builder().parse(text).is_ok()
}

/// Writes the logs of this process from now on, to standard error: those of libraries that use `log` too, else nobody
/// would hear that a listener cannot accept.
///
/// # Errors
/// If somebody writes them already.
pub fn start(settings: &Settings) -> Result<(), TryInitError> {
    let colours = if stderr().is_terminal() { Colours::Yes } else { Colours::No };
    subscriber(settings, stderr, colours).try_init()
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    Yes,
    No,
}

/// Writes events as the settings say.
fn subscriber<W>(settings: &Settings, writer: W, colours: Colours) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse_lossy(&settings.level);
    let events = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match settings.format {
        Format::Text => Box::new(events.with_ansi(colours == Colours::Yes).finish()),
        Format::Json => {
            Box::new(events.json().flatten_event(true).with_current_span(true).with_span_list(false).finish())
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What two events look like under these settings.
    fn written(level: &str, format: Format) -> String {
        let page = Page::default();
        let writer = page.clone();
        let settings = Settings { level: level.to_owned(), format };
        let events = subscriber(&settings, move || writer.clone(), Colours::No);
        tracing::subscriber::with_default(events, || {
            tracing::info!(bucket = "a/b", duration_ms = 7, "a sandbox was made");
            tracing::debug!("a detail");
        });
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn fields_have_their_names_in_text_and_in_json() {
        let text = written("info", Format::Text);
        assert!(text.ends_with("a sandbox was made bucket=\"a/b\" duration_ms=7\n"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&written("info", Format::Json)).unwrap();
        assert_eq!((&json["message"], &json["bucket"]), (&"a sandbox was made".into(), &"a/b".into()));
        assert_eq!(json["duration_ms"], 7);
    }

    #[test]
    fn the_level_says_what_is_written() {
        assert_eq!(written("debug", Format::Text).lines().count(), 2);
        assert_eq!(written("error", Format::Text), "");
        assert_eq!(written("error,cubewarden=info", Format::Json).lines().count(), 1);
        assert!(is_level("info,access=debug") && !is_level("") && !is_level("loud=very"));
    }
}
