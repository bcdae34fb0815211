//! Real, pinned SDKs over real sockets: what their users see on a bare Cube, and through the warden.
//!
//! `driver` runs them, `expected` says what each makes of each call. The facts behind the expectations: an SDK reads an
//! error's `code`, not always its status; `kill` of what is gone is `False` in e2b and an exception in cubesandbox; e2b from
//! 2.51 on speaks `/v2`, which no Cube up to 0.7 has.

mod bare;
mod driver;
mod expected;
mod late;
mod through;

use driver::Sdk;

/// One test for each pinned SDK, under a name that says which.
macro_rules! for_each_sdk {
    ($story:ident) => {
        for_each_sdk! { $story with
            #[tokio::test(flavor = "multi_thread")]
            async fn with_cubesandbox_0_7_3() {
                super::$story(Sdk::Cube("0.7.3")).await;
            }
        }
    };
    ($story:ident with $($another:item)?) => {
        mod $story {
            use super::super::driver::Sdk;

            #[tokio::test(flavor = "multi_thread")]
            async fn with_e2b_2_15_2_for_python() {
                super::$story(Sdk::Python("2.15.2")).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_e2b_2_50_0_for_python() {
                super::$story(Sdk::Python("2.50.0")).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_e2b_2_63_0_for_python() {
                super::$story(Sdk::Python("2.63.0")).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_e2b_2_12_1_for_javascript() {
                super::$story(Sdk::Js("2.12.1")).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_e2b_2_51_0_for_javascript() {
                super::$story(Sdk::Js("2.51.0")).await;
            }

            $($another)?
        }
    };
}
use for_each_sdk;

/// One test for each SDK that lets its users send headers: cubesandbox does not.
macro_rules! for_each_e2b {
    ($story:ident) => {
        for_each_sdk! { $story with }
    };
}
use for_each_e2b;

/// What a run told against what was expected of it; the first line that differs is shown.
#[track_caller]
fn check(sdk: Sdk, told: &[driver::Step], expected: &[String]) {
    let told: Vec<String> = told.iter().map(driver::Step::told).collect();
    let same = told.iter().zip(expected).take_while(|(told, expected)| told == expected).count();
    let (told_here, expected_here) = (told.get(same), expected.get(same));
    assert_eq!(told_here, expected_here, "{sdk}, after {:#?}", &told[..same]);
}

/// Each step begins as expected: class and status, where the words are the server's business.
#[track_caller]
fn check_beginnings(sdk: Sdk, told: &[driver::Step], expected: &[&str]) {
    let told: Vec<String> = told.iter().map(driver::Step::told).collect();
    let fits = told.len() == expected.len()
        && told.iter().zip(expected).all(|(told, begin)| told.starts_with(begin));
    assert!(fits, "{sdk} told {told:#?} where this was expected {expected:#?}");
}
