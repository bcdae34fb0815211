//! What clients write is text on the page, whatever it looks like.

use serde_json::json;

use super::{ROWS, Stage};

const TAG: &str = "<img src=x onerror=\"window.ran = 1\"><script>window.ran = 2</script>";
/// A terminal's escape, a mark that reverses what follows, one that hides, and the end of a script.
const MARKS: &str = "\u{1b}[31mred \u{202e}desrever \u{200b}hidden</script>";

#[tokio::test]
async fn metadata_of_a_hostile_client_is_shown_as_text_and_runs_nothing() {
    let stage = Stage::set("").await;
    let more = json!({ "note": TAG, "marks": MARKS, TAG: "as a name", "__proto__": "p", "session_id": TAG });
    let id = stage.create("prod", TAG, &more).await;
    stage.open().await;
    let browser = &stage.browser;
    browser.until(&format!("{ROWS} === 1")).await;
    browser.value("document.querySelector('#sandboxes tbody button').click()").await;
    browser.until("document.getElementById('explain').open").await;
    let shown = browser.value("document.getElementById('explain').textContent").await;
    let shown = shown.as_str().unwrap();
    assert!(shown.contains(&id) && shown.contains(TAG), "{shown}");
    assert!(shown.contains(&format!("metadata {TAG}")), "{shown}");
    assert!(shown.contains(r"\u{1b}[31mred \u{202e}desrever \u{200b}hidden</script>"), "{shown}");
    let whole = browser.value("document.documentElement.textContent").await;
    assert!(!whole.as_str().unwrap().contains(['\u{1b}', '\u{202e}', '\u{200b}']));
    assert_eq!(browser.value("window.ran ?? 'nothing'").await, "nothing");
    assert_eq!(
        browser.value("document.querySelectorAll('img, iframe, main script, dialog script').length").await,
        0
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert!(
        browser.asked().iter().all(|url| url.starts_with(&stage.console) || url.starts_with("data:")),
        "{:?}",
        browser.asked()
    );
    assert_eq!(stage.cube.alive().len(), 1);
}

#[tokio::test]
async fn even_a_mistake_in_the_page_could_not_turn_text_into_code() {
    let stage = Stage::set("").await;
    stage.open().await;
    let browser = &stage.browser;
    browser.until("!document.getElementById('main').hidden").await;
    // Text is not taken for markup at all; what is put there by other ways is not run and not fetched.
    let markup = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken'; } catch (error) { return error.name; } })()";
    assert_eq!(browser.value(markup).await, "TypeError");
    let inline = "(() => { const script = document.createElement('script'); \
        try { script.text = 'window.ran = 1'; document.body.append(script); } catch { return 'refused'; } return String(window.ran); })()";
    assert_eq!(browser.value(inline).await, "refused");
    let handler = "(() => { const b = document.createElement('b'); try { b.setAttribute('onclick', 'window.ran = 1'); } catch { } \
        b.click(); return String(window.ran); })()";
    assert_eq!(browser.value(handler).await, "undefined");
    let elsewhere = "fetch('http://127.0.0.2:9/').then(() => 'sent', (error) => error.name)";
    assert_eq!(browser.value(elsewhere).await, "TypeError");
    let refused = browser.complaints().join("\n");
    assert!(refused.contains("Content Security Policy"), "{refused}");
}
