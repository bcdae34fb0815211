//! What every store must do: laws with sentences for names, each run on each store, and random steps beside a model.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod faults;
mod kill;
mod laws;
mod model;
mod place;
mod random;

/// Makes a test of each law on one store.
macro_rules! hold {
    ($store:ident: $($room:ident::$law:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$room::$law(super::place::Place::$store()).await;
            }
        )+
    };
}

/// Every store holds these.
macro_rules! laws_hold_on {
    ($store:ident) => {
        mod $store {
            hold! { $store:
                laws::what_was_never_written_has_version_zero_and_no_bytes
                laws::a_version_is_the_sequence_of_the_commit_that_wrote_it_and_rises
                laws::a_commit_whose_expectation_moved_writes_nothing
                laws::a_full_set_admits_nobody_and_says_how_many_it_holds
                laws::a_record_that_moved_counts_before_a_set_that_is_full
                laws::sixty_four_racers_for_ten_places_get_exactly_ten
                laws::of_racers_on_one_record_exactly_one_wins_each_round
                laws::leaving_twice_frees_only_ones_own_place
                laws::what_leaves_and_joins_in_one_batch_is_in
                laws::appointments_come_due_in_order_and_move
                laws::members_page_through_a_set_in_order
                laws::the_halves_of_the_log_share_their_sequence_and_not_their_bounds
                laws::the_log_keeps_its_order_and_loses_the_oldest_first
                laws::bytes_come_back_as_they_were
                laws::time_follows_the_clock_and_never_steps_back
                laws::what_is_known_of_the_time_without_asking_is_what_a_read_would_show
                laws::a_commit_that_comes_later_than_it_may_writes_nothing
                laws::whoever_waits_for_room_is_told
                random::random_steps_agree_with_the_model
            }
        }
    };
}

/// Stores that outlive their process hold these too.
macro_rules! lasting_laws_hold_on {
    ($name:ident, $store:ident) => {
        mod $name {
            hold! { $store:
                laws::what_was_confirmed_is_there_after_reopening
                laws::time_never_steps_back_not_even_after_reopening
                laws::sequences_go_on_after_reopening
            }
        }
    };
}

laws_hold_on!(embedded_on_disk);
laws_hold_on!(embedded_in_memory);
laws_hold_on!(redis);
lasting_laws_hold_on!(embedded_on_disk_lasts, embedded_on_disk);
lasting_laws_hold_on!(redis_lasts, redis);
