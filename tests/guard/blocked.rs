//! The write path is blocked for two hours, as on 18 June, and then is not.

use std::collections::BTreeMap;

use super::*;

/// A step of the story, and how many steps there are in an hour.
const STEP: u32 = 30;
const HOUR: u32 = 3600 / STEP;

/// Clients go on creating and deleting all the time, one of each at each step.
struct Clients {
    under_way: Vec<JoinHandle<Answer>>,
    answers: BTreeMap<u16, usize>,
    made: Vec<String>,
}

impl Clients {
    /// `blocked` is the fault that creates run into.
    async fn step(&mut self, world: &World, blocked: u64) {
        let before = world.cube.struck(blocked);
        let create = world.begin("POST", "/sandboxes".into(), Some(BODY));
        crate::support::until("it is answered, sent, or waits", || {
            create.is_finished() || world.cube.struck(blocked) > before || world.view().waiting[3] > 0
        })
        .await;
        self.under_way.push(create);
        if let Some(id) = self.made.pop() {
            self.under_way.push(world.begin("DELETE", format!("/sandboxes/{id}"), None));
        }
        world.pass(STEP).await;
        let (over, rest) = std::mem::take(&mut self.under_way).into_iter().partition(JoinHandle::is_finished);
        self.under_way = rest;
        let over: Vec<JoinHandle<Answer>> = over;
        for answer in over {
            let answer = answer.await.unwrap();
            *self.answers.entry(answer.status.as_u16()).or_default() += 1;
            if answer.status == 201 {
                self.made.push(answer.text("sandboxID"));
            }
        }
    }
}

#[tokio::test]
async fn after_two_hours_of_a_blocked_write_path_no_slot_is_lost_and_creates_flow_within_a_minute() {
    let world = world("").await;
    let mut clients = Clients { under_way: Vec::new(), answers: BTreeMap::new(), made: Vec::new() };
    for _ in 0..20 {
        clients.made.push(world.create().await.text("sandboxID"));
    }
    let creates = world.cube.fault(Fault::Block { late_ms: None }.on(Kind::Create));
    world.cube.fault(Fault::Block { late_ms: None }.on(Kind::Delete));
    let mut most_ambiguous = 0;
    for step in 0..2 * HOUR {
        clients.step(&world, creates).await;
        if step % 2 == 0 {
            world.warden.warden.tasks.tick_inventory().await.unwrap();
        }
        let entries = world.warden.entries().await;
        let ambiguous = entries.iter().filter(|entry| entry.state.name() == "ambiguous").count();
        most_ambiguous = most_ambiguous.max(ambiguous);
    }
    let sent = world.cube.struck(creates);
    assert!((100..=140).contains(&sent), "about one probe in a minute: {sent}");
    assert!(most_ambiguous <= 16, "probes leave few unclear ones behind: {most_ambiguous}");
    assert!(clients.answers[&503] > 100, "{:?}", clients.answers);
    assert!(!clients.answers.contains_key(&201), "{:?}", clients.answers);

    world.cube.clear_faults();
    for _ in 0..60 / STEP {
        clients.step(&world, creates).await;
    }
    assert!(
        clients.answers.contains_key(&201),
        "within a minute of healing: {:?} {:?}",
        clients.answers,
        world.view()
    );
    let refused = clients.answers[&503];
    for step in 0..HOUR / 2 {
        clients.step(&world, creates).await;
        if step % 2 == 0 {
            world.warden.warden.tasks.tick_inventory().await.unwrap();
        }
    }
    assert!(clients.answers[&503] <= refused + 4, "{refused} {:?} {:?}", clients.answers, world.view());
    for answer in clients.under_way {
        answer.await.unwrap();
    }
    world.tick().await;
    let (alive, held) = (world.cube.alive().len(), world.warden.held().await);
    assert_eq!(u64::try_from(alive).unwrap(), held, "{:#?}", world.warden.entries().await);
    assert!(alive <= clients.made.len() + 2, "{alive} {}", clients.made.len());
    assert!(!world.view().recovering && world.view().backlog == 0, "{:?}", world.view());
}
