//! What every store must do: laws with sentences for names, each run on each store, and random steps beside a model.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod faults;
mod holders;
mod kill;
mod laws;
mod leases;
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
                laws::a_commit_that_demands_what_was_lost_writes_nothing
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
                leases::of_creates_of_one_owner_at_once_exactly_one_takes_a_slot
                leases::each_holder_is_given_a_greater_generation_whatever_the_clock_does
                leases::a_sealed_lease_never_acquires_beats_or_releases_again
                leases::a_release_is_written_down_once
                leases::a_stale_generation_or_lease_ends_nothing_whoever_shows_it
                leases::the_record_of_an_owner_goes_with_its_entry_and_never_with_another
                leases::a_seal_is_forgotten_after_thirty_days_and_not_before
                leases::the_last_claim_that_is_given_up_condemns_what_nothing_keeps
                leases::a_lapsed_lease_lives_again_by_a_beat_unless_somebody_has_overtaken_it
                leases::of_a_beat_and_a_collector_at_once_exactly_one_wins_a_thousand_times
                leases::a_holder_that_beats_for_ever_does_not_outlive_its_ceiling
                leases::a_late_release_frees_nobody_elses_slot
                holders::random_holders_agree_with_the_rules
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
