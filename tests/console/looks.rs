//! In the dark and on a phone; the pictures lie in `target/console/` afterwards.

use serde_json::json;

use super::{CONFIG, ROWS, Stage};

/// The brightness of a colour that the page computes, 0 to 255.
const PAPER: &str =
    "Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number))";
const INK: &str = "Math.max(...getComputedStyle(document.body).color.match(/\\d+/g).slice(0, 3).map(Number))";
/// Whether anything reaches over the right edge.
const FITS: &str = "document.documentElement.scrollWidth <= document.documentElement.clientWidth && \
    [...document.querySelectorAll('main *')].every((one) => one.getBoundingClientRect().right <= innerWidth + 1)";

/// What a page that was open for an hour would have seen, for the pictures.
const HISTORY: &str = "import('/charts.js').then(({ samples }) => { for (let ago = 1; ago < 60; ago += 0.2) { \
    const bad = ago > 22 && ago < 31; \
    samples.unshift({ at: Date.now() - ago * 60000, \
        backlog: bad ? Math.round(4 * (31 - ago)) : ago <= 22 && ago > 14 ? Math.round(4.5 * (ago - 14)) : 0, \
        create: bad && ago > 23 ? 'open' : bad ? 'half-open' : 'closed', delete: bad && ago < 29 ? 'open' : 'closed' }); } })";

#[tokio::test]
async fn it_can_be_read_in_the_dark_and_on_a_phone() {
    let stage = Stage::set(CONFIG).await;
    for run in ["checkout-7f3a", "checkout-91bc", "import-nightly"] {
        stage.create("prod", run, &json!({})).await;
    }
    let paused = stage.create("dev", "notebook-anna", &json!({})).await;
    stage.create("dev", &"a-very-long-name-without-a-place-to-break".repeat(3), &json!({})).await;
    assert_eq!(stage.warden.caller().post(&format!("/sandboxes/{paused}/pause"), "").await.status, 204);
    stage.open().await;
    let browser = &stage.browser;
    browser.until(&format!("{ROWS} === 5 && document.querySelectorAll('#decisions li').length > 4")).await;
    browser.value(HISTORY).await;
    browser.scheme("light").await;
    browser.until(&format!("{PAPER} > 200 && {INK} < 80")).await;
    browser.until("!!document.querySelector('#breaker-chart .open')").await;
    assert_eq!(browser.value(FITS).await, true);
    browser.picture("light").await;
    browser.scheme("dark").await;
    browser.until(&format!("{PAPER} < 60 && {INK} > 200")).await;
    browser.picture("dark").await;
    browser.wide(390, 844).await;
    browser.until(FITS).await;
    // A row is a card, and a finger finds what can be touched.
    assert_eq!(browser.value("getComputedStyle(document.querySelector('tbody tr')).display").await, "grid");
    assert_eq!(
        browser.value("document.getElementById('search').getBoundingClientRect().height >= 36").await,
        true
    );
    browser.picture("phone").await;
    browser.value("document.querySelector('#sandboxes tbody button').click()").await;
    browser.until("document.getElementById('explain').open").await;
    let dialog = "document.getElementById('explain')";
    assert_eq!(browser.value(&format!("{dialog}.scrollWidth <= {dialog}.clientWidth && {FITS}")).await, true);
    browser.picture("phone-explain").await;
}
