//! Ten thousand sandboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::Stopwatch;

use super::{ROWS, Stage};
use crate::support::warden::Builder;

const MANY: usize = 10_000;
/// Of an unoptimized program beside the rest of the tests; a page that drew every row would take longer and stay slow.
const BOUND: Duration = Duration::from_secs(30);

#[tokio::test]
async fn ten_thousand_sandboxes_load_in_time_and_can_be_searched_and_turned() {
    let stage = Stage::with("", Builder::without_tasks).await;
    let metadata = BTreeMap::from([("run".to_owned(), "crowd".to_owned())]);
    stage.cube.seed_sandboxes(MANY, &metadata);
    stage.warden.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(stage.warden.held().await, u64::try_from(MANY).unwrap());
    let one = stage.cube.alive()[MANY / 2].id.clone();
    let browser = &stage.browser;
    let watch = Stopwatch::start();
    stage.open().await;
    browser
        .until(&format!(
            "{ROWS} === 100 && document.getElementById('page').innerText === '1 to 100 and more'"
        ))
        .await;
    browser.until("document.getElementById('buckets').innerText.includes('10,000, no limit')").await;
    assert!(watch.elapsed() < BOUND, "the first page took {:?}", watch.elapsed());
    let first = browser.value("document.querySelector('#sandboxes tbody button').innerText").await;
    browser.value("document.getElementById('next').click()").await;
    browser.until("document.getElementById('page').innerText === '101 to 200 and more'").await;
    browser.value("document.getElementById('back').click()").await;
    browser.until("document.getElementById('page').innerText === '1 to 100 and more'").await;
    assert_eq!(browser.value("document.querySelector('#sandboxes tbody button').innerText").await, first);
    let watch = Stopwatch::start();
    browser.type_into("search", &one).await;
    browser
        .until(&format!(
            "{ROWS} === 1 && document.querySelector('#sandboxes tbody').innerText.includes('{one}')"
        ))
        .await;
    assert!(watch.elapsed() < BOUND, "the search took {:?}", watch.elapsed());
    // However many there are, the page holds as many elements as one page needs.
    assert_eq!(browser.value("document.querySelectorAll('*').length < 3000").await, true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
