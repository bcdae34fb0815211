//! The ledger's verbs on a ledger in memory: the same decisions of the same rules, in the same order as in `src/ledger`.
//!
//! A verb that reads, applies a rule, commits if nothing moved and else reads again, is one step here: what moved in
//! between is read again. Where something is carried from one verb to the next (what an owner holds), it is compared.

use cubewarden::ids::Generation;
use cubewarden::rules::admission;
use cubewarden::rules::delete::{self, Decision, Shown};
use cubewarden::rules::entry::{
    Activity, Actor, Entry, KillFailure, Lease, Origin, Proof, Shape, State, Struck, Timing, Unfit,
    generation_after,
};
use cubewarden::time::UnixMillis;

use super::names::{self, names};
use super::setup::{Broken, Client, Setup};
use super::world::{Breach, Ledger, N, Trust, World};

/// What became of an ask for a slot.
pub(super) enum Reserved {
    Slot,
    Full,
    Taken,
}

/// What became of a wish to end.
#[derive(PartialEq, Eq)]
pub(super) enum Condemned {
    Yes,
    Unproven,
    No,
}

/// How a try to kill went.
#[derive(Clone, Copy)]
pub(super) enum Report {
    Proof(Proof),
    Unclear,
}

impl Ledger {
    pub(super) fn entry(&self, n: N) -> Option<Entry> {
        self.entries.get(&n).map(|kept| Entry::clone(kept))
    }

    /// One commit: the entry, its slot, and the seal of the lease that ends with it.
    pub(super) fn put(&mut self, n: N, next: Entry) {
        if let Some(old) = self.entries.get(&n)
            && let Some(lease) = &old.lease
        {
            let overtaken = next.lease.as_ref().is_none_or(|held| held.id != lease.id);
            let ended = old.usable() && next.kill().is_some_and(|kill| !kill.actor.yields());
            if overtaken || ended {
                self.sealed.insert(lease.id.clone());
            }
        }
        if next.charged() {
            self.slots.insert(n);
        } else {
            self.slots.remove(&n);
        }
        self.entries.insert(n, next.into());
    }

    /// Applies a rule where it fits. True if it did.
    pub(super) fn apply(&mut self, n: N, rule: impl FnOnce(Entry) -> Result<Entry, Unfit>) -> bool {
        let next = self.entry(n).and_then(|entry| rule(entry).ok());
        next.map(|next| self.put(n, next)).is_some()
    }
}

/// An entry as a create begins it.
pub(super) fn fresh(
    n: N,
    instance: u8,
    generation: Generation,
    lease: Option<Lease>,
    now: UnixMillis,
) -> Entry {
    let names = names();
    Entry {
        marker: names.markers[usize::from(n)].clone(),
        upstream: names.upstream.clone(),
        bucket: names.bucket.clone(),
        owner: names.owner.clone(),
        tenant: None,
        origin: Origin::Created,
        instance: names.instances[usize::from(instance)].clone(),
        generation,
        holders: 1,
        claims: 1,
        lease,
        asked_for: None,
        incarnation: 0,
        hold: None,
        released: None,
        sandbox: None,
        template: String::new(),
        shape: Shape::default(),
        metadata: None,
        claim: None,
        answer: None,
        asked: now,
        dispatched: None,
        first_seen: None,
        last_sign: now,
        deadline: None,
        claim_until: None,
        operations: Vec::new(),
        state: State::Reserved,
        due: Some(now.plus(std::time::Duration::from_secs(1))),
    }
}

impl World {
    pub(super) fn has_room(&self, setup: &Setup) -> bool {
        admission::admits(self.ledger.slots.len() as u64, Some(setup.limit))
    }

    /// Takes a slot for wish `n`, and its owner's claim if nobody has taken that since it was read.
    pub(super) fn reserve(
        &mut self,
        setup: &Setup,
        (w, n): (usize, N),
        held: Option<(N, Generation)>,
        counted: bool,
    ) -> Reserved {
        if setup.reuse.is_some() && self.ledger.holding != held {
            return Reserved::Taken;
        }
        let room = if setup.is(Broken::CountThenTake) { counted } else { self.has_room(setup) };
        if !room || matches!(self.ledger.trust, Trust::Lost(_)) {
            return Reserved::Full;
        }
        let now = self.time();
        let last = held.map(|(other, generation)| {
            self.ledger.entries.get(&other).map_or(generation, |entry| entry.generation)
        });
        let lease = setup.reuse.map(|keeper| Lease::new(names::lease(n), keeper, None, now));
        let entry = fresh(n, self.wardens[w].instance, generation_after(last, now), lease, now);
        if setup.reuse.is_some() {
            self.ledger.holding = Some((n, entry.generation));
        }
        self.ledger.put(n, entry);
        Reserved::Slot
    }

    /// Condemns `n` for `actor`, who shows `shown` and is (or acts for) `by`.
    pub(super) fn condemn(
        &mut self,
        setup: &Setup,
        n: N,
        (actor, by): (Actor, Option<Client>),
        shown: &Shown,
    ) -> Condemned {
        let Some(entry) = self.ledger.entry(n) else { return Condemned::No };
        let (now, timing) = (self.time(), setup.timing());
        let current = Shown::of_generation(Some(entry.generation));
        let falls_back = setup.is(Broken::StaleDeletesCurrent) && actor == Actor::Client;
        let shown = if falls_back { &current } else { shown };
        let mut seen = entry.clone();
        if setup.is(Broken::CondemnIgnoresOperations) {
            seen.operations.clear();
        }
        let blind = setup.is(Broken::OneLook) && actor == Actor::Collector && entry.usable();
        let decision =
            if blind { Decision::Allow } else { delete::decide(actor, shown, &seen, now, &timing) };
        match decision {
            Decision::Allow => match seen.condemn(actor, now) {
                Ok(mut next) => {
                    self.watch(setup, n, actor, by);
                    if setup.is(Broken::CondemnIgnoresOperations) {
                        next.operations = entry.operations;
                    }
                    self.ledger.put(n, next);
                    Condemned::Yes
                }
                Err(_) => Condemned::No,
            },
            Decision::Join => Condemned::Yes,
            Decision::Unproven => Condemned::Unproven,
            Decision::NotFound | Decision::Fenced | Decision::Kept | Decision::Later => Condemned::No,
        }
    }

    /// Somebody who cannot prove to be the holder gives up a claim.
    pub(super) fn drop_claim(&mut self, setup: &Setup, n: N) {
        if self.ledger.apply(n, |entry| entry.drop_claim(&setup.timing())) {
            self.defer(setup, n);
        }
    }

    /// What nobody claims any more is condemned once nothing keeps it.
    pub(super) fn defer(&mut self, setup: &Setup, n: N) {
        self.condemn(setup, n, (Actor::Deferred, None), &Shown::nothing());
    }

    /// Writes down how a try to kill went.
    pub(super) fn kill_tried(&mut self, setup: &Setup, n: N, before: &Entry, report: Report) {
        let (now, timing) = (self.time(), setup.timing());
        self.ledger.apply(n, |entry| {
            let struck = match report {
                Report::Proof(Proof::Deleted) => Struck::Surely,
                Report::Proof(Proof::GetNotFound) | Report::Unclear => Struck::Maybe,
                Report::Proof(_) => Struck::Never,
            };
            let entry = entry.struck(struck);
            let Report::Proof(proof) = report else {
                return entry.kill_failed(KillFailure::Failed, now, &timing);
            };
            match buried(setup, entry.clone(), before, proof, now, &timing) {
                Err(Unfit::Busy) => {
                    let wait = std::time::Duration::from_secs(1);
                    entry.kill_failed(KillFailure::InFlight { wait }, now, &timing)
                }
                Err(Unfit::Newborn) => entry.kill_failed(KillFailure::TooYoung, now, &timing),
                settled => settled,
            }
        });
    }

    /// A GET no longer finds a live entry: gone if the proof holds, else looked at again later.
    pub(super) fn not_found(&mut self, setup: &Setup, n: N) {
        let (now, timing) = (self.time(), setup.timing());
        let Some(entry) = self.ledger.entry(n).filter(Entry::usable) else { return };
        let gone = entry.clone().absent(Proof::GetNotFound, now, &timing);
        let again = Entry { due: Some(now.plus(timing.search)), ..entry };
        self.ledger.put(n, gone.unwrap_or(again));
    }

    /// A GET that was asked at `began` showed it so.
    pub(super) fn asked(&mut self, setup: &Setup, n: N, activity: Activity, began: UnixMillis) {
        let (now, timing) = (self.time(), setup.timing());
        self.ledger.apply(n, |entry| Ok(entry.seen(activity, began, now).outlived(now, &timing)));
        self.defer(setup, n);
    }

    /// I1, judged by what clients were told and by what is on its way, not by what the ledger holds.
    fn watch(&mut self, setup: &Setup, n: N, actor: Actor, by: Option<Client>) {
        let ghost = self.ghosts.get(&n).copied().unwrap_or_default();
        if !actor.yields() {
            if ghost.holder.is_some() && by != ghost.holder && self.exists(n) {
                self.breached(Breach::SuccessorHit);
            }
            return;
        }
        let beats = setup.reuse == Some(cubewarden::rules::entry::Keeper::Heartbeats);
        let promised = ghost.until > self.now || (beats && ghost.sign == self.now);
        let unclaimed = matches!(actor, Actor::Recovery | Actor::Abandoned);
        if ghost.given && (promised || unclaimed) || self.touched(n) {
            self.breached(Breach::RootCondemned);
        }
        let early = match self.ledger.trust {
            Trust::Whole => false,
            Trust::Lost(_) => true,
            Trust::Rebuilt(tick) => self.now < tick + super::setup::CYCLE,
        };
        if early && actor == Actor::Collector {
            self.breached(Breach::JudgedTooSoon);
        }
    }
}

fn buried(
    setup: &Setup,
    entry: Entry,
    before: &Entry,
    proof: Proof,
    now: UnixMillis,
    timing: &Timing,
) -> Result<Entry, Unfit> {
    if setup.is(Broken::ProofDespiteOperations) {
        return entry.absent(proof, now, timing);
    }
    entry.ended(before, proof, now, timing)
}
