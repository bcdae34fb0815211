//! What the ledger holds is what the page shows, and goes on showing.

use serde_json::json;

use super::{CONFIG, ROWS, Stage};

#[tokio::test]
async fn bars_show_what_the_ledger_holds_and_follow_it() {
    let stage = Stage::set(CONFIG).await;
    let first = stage.create("prod", "one", &json!({})).await;
    for run in ["two", "three"] {
        stage.create("prod", run, &json!({})).await;
    }
    stage.open().await;
    let browser = &stage.browser;
    let bar = "document.querySelector('[data-bucket=\"shop/prod\"]')";
    browser.until(&format!("!!{bar}?.innerText.includes('3 of 4')")).await;
    let share = format!(
        "(() => {{ const bar = {bar}.querySelector('.bar'); \
        return Math.round(100 * bar.querySelector('.live').offsetWidth / bar.offsetWidth); }})()"
    );
    assert_eq!(browser.value(&share).await, 75);
    browser.until(&format!("{ROWS} === 3")).await;
    browser.until("document.getElementById('standing').innerText.includes('ready · ledger sound')").await;
    // Without a reload: one more fills the bucket, then one less.
    stage.create("prod", "four", &json!({})).await;
    browser.until(&format!("{bar}.classList.contains('full') && {bar}.innerText.includes('4 of 4')")).await;
    assert_eq!(stage.warden.caller().delete(&format!("/sandboxes/{first}")).await.status, 204);
    browser.until(&format!("!{bar}.classList.contains('full') && {ROWS} === 3")).await;
    assert_eq!(browser.value(&share).await, 75);
    // The last decision is the first that is shown.
    browser.until(&format!("!!document.querySelector('#decisions li')?.innerText.includes('{first}')")).await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn search_narrows_by_owner_and_a_click_explains() {
    let stage = Stage::set(CONFIG).await;
    stage.create("prod", "anna", &json!({})).await;
    let wanted = stage.create("prod", "berta", &json!({ "note": "needle" })).await;
    stage.create("dev", "berta", &json!({})).await;
    stage.open().await;
    let browser = &stage.browser;
    browser.until(&format!("{ROWS} === 3")).await;
    browser.type_into("search", "Prod.site.BER").await;
    browser.until(&format!("{ROWS} === 1")).await;
    browser.value("document.querySelector('#sandboxes tbody button').click()").await;
    browser.until("document.getElementById('explain').open").await;
    let explained = browser.value("document.getElementById('explain').innerText").await;
    let explained = explained.as_str().unwrap();
    for part in [wanted.as_str(), "shop.prod.site.berta", "deadline_ahead", "needle", "Decided about it"] {
        assert!(explained.contains(part), "{part} is not in {explained}");
    }
    browser.value("document.getElementById('close').click()").await;
    browser.until("!document.getElementById('explain').open").await;
    browser.type_into("search", "nobody").await;
    browser.until(&format!("{ROWS} === 0 && document.getElementById('page').innerText === 'none'")).await;
    browser.type_into("search", "").await;
    browser.send("Input.dispatchKeyEvent", &json!({ "type": "keyDown", "key": "Backspace", "code": "Backspace", "windowsVirtualKeyCode": 8 })).await;
    browser.until(&format!("{ROWS} === 3")).await;
    browser
        .value(
            "(() => { const state = document.getElementById('state'); state.value = 'paused'; \
        state.dispatchEvent(new Event('change')); })()",
        )
        .await;
    browser.until(&format!("{ROWS} === 0")).await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn the_token_is_asked_for_and_kept_in_memory_only() {
    let stage =
        Stage::with("[admin]\ntoken_env = \"SECRET\"", |warden| warden.env("SECRET", "open-sesame-1")).await;
    stage.open().await;
    let browser = &stage.browser;
    let asked_for = "!document.getElementById('login').hidden && document.getElementById('main').hidden";
    let submit = "document.querySelector('#login button').click()";
    browser.until(asked_for).await;
    browser.type_into("token", "wrong").await;
    browser.value(submit).await;
    browser
        .until(&format!(
            "{asked_for} && document.getElementById('standing').innerText.includes('not the right one')"
        ))
        .await;
    browser.type_into("token", "open-sesame-1").await;
    browser.value(submit).await;
    browser.until("!document.getElementById('main').hidden && document.getElementById('login').hidden").await;
    browser.until("!!document.querySelector('#buckets li')").await;
    let kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.getElementById('token').value])";
    let kept = browser.value(kept).await;
    assert!(!kept.as_str().unwrap().contains("sesame"), "{kept}");
    // A page that is loaded anew has forgotten it.
    browser.send("Page.reload", &json!({})).await;
    browser.until(asked_for).await;
}

#[tokio::test]
async fn a_warden_that_is_gone_is_said_and_one_that_is_back_is_shown_again() {
    let stage = Stage::set(CONFIG).await;
    stage.open().await;
    let browser = &stage.browser;
    browser.until("!!document.querySelector('#buckets li')").await;
    let offline = |offline: bool| json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    browser.send("Network.emulateNetworkConditions", &offline(true)).await;
    browser
        .until(
            "!document.getElementById('trouble').hidden && \
        document.getElementById('trouble').innerText.includes('overview: Failed to fetch; asked again in')",
        )
        .await;
    // What was known stays to be read.
    assert_eq!(browser.value("document.querySelectorAll('#buckets li').length > 0").await, true);
    browser.send("Network.emulateNetworkConditions", &offline(false)).await;
    browser.until("document.getElementById('trouble').hidden").await;
}

#[tokio::test]
async fn charts_show_an_hour_of_samples_in_their_places_and_a_gap_as_a_gap() {
    let stage = Stage::set(CONFIG).await;
    stage.open().await;
    let browser = &stage.browser;
    // The live page draws what it samples.
    browser.until("document.querySelectorAll('#breaker-chart rect.closed').length === 2").await;
    browser.until("document.querySelector('#backlog-chart .line').getAttribute('d').length > 0").await;
    // An hour, a sample a minute: deletes pile up while the breaker of creates is open, and ten minutes nobody looked.
    let past = "import('/charts.js').then(({ samples, drawBacklog, drawBreakers }) => { \
        const now = Date.now(), state = (ago) => ago > 40 ? 'closed' : ago > 30 ? 'open' : 'closed'; \
        samples.length = 0; \
        for (let ago = 60; ago >= 0; ago -= 1) if (ago < 10 || ago > 20) \
            samples.push({ at: now - ago * 60000, backlog: ago > 30 && ago <= 40 ? 40 : 0, create: state(ago), delete: 'closed' }); \
        drawBacklog(document.getElementById('backlog-chart'), now); drawBreakers(document.getElementById('breaker-chart'), now); \
        return [...document.querySelectorAll('#breaker-chart rect')].map((one) => \
            [one.getAttribute('class'), one.y.baseVal.value < 50 ? 'create' : 'delete', \
             Math.round(one.x.baseVal.value), Math.round(one.width.baseVal.value)].join(' ')); })";
    let drawn = browser.value(past).await;
    // 12 units a minute; a sample holds for a minute and a half if none follows.
    let wanted = json!([
        "closed create 0 240",
        "open create 240 120",
        "closed create 360 126",
        "closed create 612 108",
        "closed delete 0 486",
        "closed delete 612 108",
    ]);
    assert_eq!(drawn, wanted);
    let line = browser.value("document.querySelector('#backlog-chart .line').getAttribute('d')").await;
    assert_eq!(line.as_str().unwrap().matches('M').count(), 2, "{line}");
    assert!(line.as_str().unwrap().contains("240 6"), "{line}");
}
