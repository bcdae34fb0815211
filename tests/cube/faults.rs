//! Faults by name, which requests they strike, and how often. Pure: a request in, what happens to it out.
//!
//! Rules are asked in the order in which they were set; of two that both replace the answer the first one wins and only that one is
//! used up. Standing conditions (a host that is away, slow pauses, short keep-alive) hold until cleared.
//! Must stay true: a rule limited to N requests strikes exactly N, however many come at once.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::ask::Kind;
use super::model::{Bend, Listing, World};
use super::profile::Profile;
use super::write_path::WritePath;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub(crate) enum Fault {
    /// Answered with this, nothing done.
    Refuse {
        status: u16,
        body: String,
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// The backend answers with this code, nothing done; read as `CubeAPI` reads it.
    Backend { code: i64, message: String },
    /// The backend answers bytes that are not its protocol.
    Garbage { body: String },
    /// The backend's connection breaks, nothing done: 500 with `CubeAPI`'s transport text.
    TransportError,
    /// No capacity: 500 with 130597, nothing done.
    NoResource,
    /// DELETE is answered 503 with `Retry-After: 2`, nothing done.
    DeleteBusy,
    /// The list fails, and GET with it: 500 with 130594.
    ListFails,
    /// Done, but only after this time.
    Slow { ms: u64 },
    /// The connection is closed without an answer; nothing done.
    DropRequest,
    /// Done; then the connection is closed before the answer.
    LoseAnswer,
    /// The connection is reset; `done` says whether before or after the work.
    Reset { done: bool },
    /// Waits until released; `done` says whether the work is done before or after the wait.
    Hold { done: bool },
    /// Hangs until the client is answered 408; the work is done late, counted from arrival, or never.
    Block { late_ms: Option<u64> },
    /// Done, and the answer is sent twice.
    AnswerTwice,
    /// These ids are missing from the list.
    Omit { ids: BTreeSet<String> },
    /// The list is empty.
    EmptyList,
    /// List and GET show only the system's labels.
    ForgetLabels,
    /// A deleted sandbox comes back.
    Resurrect { after_ms: u64 },
    /// Standing: this host is away; its sandboxes are missing from the list, everything else about them is 500 with 130408.
    HostUnreachable { host: String },
    /// Standing: a pause stays `pausing` for so long.
    SlowPause { ms: u64 },
    /// Standing: a connection idle for so long is closed.
    IdleClose { ms: u64 },
    /// Standing: writes are the slower the more residents there are and writes under way, until they are not done at all.
    StrainedWrites(WritePath),
}

/// Which requests; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Scope {
    pub(crate) kinds: BTreeSet<Kind>,
    pub(crate) methods: BTreeSet<String>,
    pub(crate) ids: BTreeSet<String>,
    /// How many more requests it strikes; `None`: all.
    pub(crate) times: Option<u32>,
}

/// A fault with its scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rule {
    #[serde(flatten)]
    pub(crate) fault: Fault,
    #[serde(flatten)]
    pub(crate) scope: Scope,
}

impl From<Fault> for Rule {
    fn from(fault: Fault) -> Self {
        Self { fault, scope: Scope::default() }
    }
}

impl Fault {
    /// Only requests of this kind; [`Rule`] narrows further.
    pub(crate) fn on(self, kind: Kind) -> Rule {
        Rule::from(self).on(kind)
    }
}

impl Rule {
    /// Requests of this kind too.
    pub(crate) fn on(mut self, kind: Kind) -> Self {
        self.scope.kinds.insert(kind);
        self
    }

    /// Only (or also) requests by this method.
    pub(crate) fn method(mut self, method: &str) -> Self {
        self.scope.methods.insert(method.to_owned());
        self
    }

    /// Only (or also) requests on this sandbox.
    pub(crate) fn id(mut self, id: &str) -> Self {
        self.scope.ids.insert(id.to_owned());
        self
    }

    /// Only the next `times` requests.
    pub(crate) fn times(mut self, times: u32) -> Self {
        self.scope.times = Some(times);
        self
    }

    fn strikes(&self, kind: Kind, id: Option<&str>) -> bool {
        let scope = &self.scope;
        let spent = scope.times == Some(0);
        let kinds = scope.kinds.is_empty() || scope.kinds.contains(&kind);
        let methods = scope.methods.is_empty() || scope.methods.contains(kind.method());
        let ids = scope.ids.is_empty() || id.is_some_and(|id| scope.ids.contains(id));
        !spent && kinds && methods && ids && self.fault.applies_to(kind)
    }
}

/// A rule as JSON writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct NewRule {
    #[serde(flatten)]
    fault: Fault,
    kind: Option<Kind>,
    #[serde(default)]
    kinds: Vec<Kind>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    ids: Vec<String>,
    times: Option<u32>,
}

impl From<NewRule> for Rule {
    fn from(new: NewRule) -> Self {
        let mut rule = match new.kind {
            Some(kind) => new.fault.on(kind),
            None => Self::from(new.fault),
        };
        rule = new.kinds.into_iter().fold(rule, Self::on);
        rule = new.methods.iter().fold(rule, |rule, method| rule.method(method));
        rule = new.ids.iter().fold(rule, |rule, id| rule.id(id));
        match new.times {
            Some(times) => rule.times(times),
            None => rule,
        }
    }
}

impl Fault {
    /// Faults of lists and deletes leave everything else alone; standing ones strike no request.
    fn applies_to(&self, kind: Kind) -> bool {
        match self {
            // CubeAPI answers GET from the backend's list call too.
            Self::ListFails => matches!(kind, Kind::List | Kind::Get),
            Self::Omit { .. } | Self::EmptyList => kind == Kind::List,
            Self::DeleteBusy | Self::Resurrect { .. } => kind == Kind::Delete,
            Self::NoResource => kind == Kind::Create,
            Self::ForgetLabels => matches!(kind, Kind::List | Kind::Get),
            Self::Block { .. } => matches!(kind.method(), "POST" | "DELETE" | "PUT" | "PATCH"),
            Self::HostUnreachable { .. }
            | Self::SlowPause { .. }
            | Self::IdleClose { .. }
            | Self::StrainedWrites(_) => false,
            _ => true,
        }
    }
}

/// What happens to one request, in this order: wait, hold, deed, hold, fate of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) wait: Duration,
    pub(crate) hold_before: bool,
    pub(crate) deed: Deed,
    pub(crate) bend: Bend,
    pub(crate) hold_after: bool,
    pub(crate) ending: Ending,
}

/// Whether the work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deed {
    #[default]
    Done,
    /// Not done; this is the answer.
    Instead(Answer),
    /// Not done, no answer.
    Dropped,
    /// The client hangs; done after this time, or never.
    Blocked(Option<Duration>),
}

/// What becomes of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Answered,
    Closed,
    Reset,
    Twice,
}

/// All rules in force, and how many requests each has struck.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<(u64, Rule)>,
    last: u64,
    struck: std::collections::BTreeMap<u64, u64>,
}

impl Faults {
    /// One more rule; its number.
    pub(crate) fn add(&mut self, rule: Rule) -> u64 {
        self.last += 1;
        self.rules.push((self.last, rule));
        self.last
    }

    /// One rule less.
    pub(crate) fn remove(&mut self, number: u64) {
        self.rules.retain(|(held, _)| *held != number);
    }

    /// No rules.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The rules in force with their numbers.
    pub(crate) fn rules(&self) -> &[(u64, Rule)] {
        &self.rules
    }

    /// How many requests the rule has struck.
    pub(crate) fn struck(&self, number: u64) -> u64 {
        self.struck.get(&number).copied().unwrap_or(0)
    }

    /// The standing conditions.
    pub(crate) fn world(&self) -> World {
        let mut world = World::default();
        for (_, rule) in &self.rules {
            match &rule.fault {
                Fault::HostUnreachable { host } => drop(world.unreachable.insert(host.clone())),
                Fault::SlowPause { ms } => world.pause_takes = Duration::from_millis(*ms),
                Fault::StrainedWrites(path) => world.write_path = Some(*path),
                _ => {}
            }
        }
        world
    }

    /// After how long an idle connection is closed; `None`: never.
    pub(crate) fn idle_close(&self) -> Option<Duration> {
        self.rules.iter().find_map(|(_, rule)| match rule.fault {
            Fault::IdleClose { ms } => Some(Duration::from_millis(ms)),
            _ => None,
        })
    }

    /// What happens to a request; uses up the rules that strike it.
    pub(crate) fn course(&mut self, profile: Profile, kind: Kind, id: Option<&str>) -> Course {
        let mut course = Course::default();
        for (number, rule) in &mut self.rules {
            if rule.strikes(kind, id) && course.take(&rule.fault, profile, kind) {
                rule.scope.times = rule.scope.times.map(|times| times - 1);
                *self.struck.entry(*number).or_default() += 1;
            }
        }
        course
    }
}

impl Course {
    /// Bends the course; false if an earlier rule has already decided what this one would.
    fn take(&mut self, fault: &Fault, profile: Profile, kind: Kind) -> bool {
        match fault {
            Fault::Slow { ms } => self.wait += Duration::from_millis(*ms),
            Fault::Hold { done: false } => self.hold_before = true,
            Fault::Hold { done: true } => self.hold_after = true,
            Fault::Omit { ids } => self.bend.omit.extend(ids.iter().cloned()),
            Fault::EmptyList => self.bend.list = Listing::Empty,
            Fault::ForgetLabels => self.bend.forget_labels = true,
            Fault::Resurrect { after_ms } => {
                self.bend.resurrect_after = Some(Duration::from_millis(*after_ms));
            }
            Fault::DropRequest => return self.decide(Deed::Dropped, Ending::Closed),
            Fault::LoseAnswer => return self.decide(Deed::Done, Ending::Closed),
            Fault::Reset { done: true } => return self.decide(Deed::Done, Ending::Reset),
            Fault::Reset { done: false } => return self.decide(Deed::Dropped, Ending::Reset),
            Fault::AnswerTwice => return self.decide(Deed::Done, Ending::Twice),
            Fault::Block { late_ms } => {
                let late = late_ms.map(Duration::from_millis);
                return self.decide(Deed::Blocked(late), Ending::Answered);
            }
            answered => match answer(answered, profile, kind) {
                Some(answer) => return self.decide(Deed::Instead(answer), Ending::Answered),
                None => return false,
            },
        }
        true
    }

    fn decide(&mut self, deed: Deed, ending: Ending) -> bool {
        let open = self.deed == Deed::Done && self.ending == Ending::Answered;
        if open {
            self.deed = deed;
            self.ending = ending;
        }
        open
    }
}

fn answer(fault: &Fault, profile: Profile, kind: Kind) -> Option<Answer> {
    Some(match fault {
        Fault::Refuse { status, body, retry_after } => {
            let answer = Answer::raw(*status, body);
            retry_after
                .iter()
                .fold(answer, |answer, seconds| answer.with_header("retry-after", seconds.to_string()))
        }
        Fault::Backend { code, message } => Answer::backend(profile, kind, *code, message),
        Fault::Garbage { body } => Answer::error(
            500,
            &format!("failed to deserialise CubeMaster response: {}: body={body}", unread(body)),
        ),
        Fault::TransportError => Answer::error(
            500,
            &format!(
                "HTTP transport error: error sending request for url (http://127.0.0.1:8089{})",
                kind.backend_path()
            ),
        ),
        Fault::NoResource => Answer::backend(profile, kind, 130_597, "no more resource"),
        Fault::DeleteBusy => {
            Answer::retry_later("sandbox lifecycle operation is in progress; retry DELETE after 2 seconds", 2)
        }
        Fault::ListFails => Answer::backend(profile, kind, 130_594, "db error"),
        _ => return None,
    })
}

/// The reader's own complaint about bytes that are not the backend's envelope.
fn unread(body: &str) -> String {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(rename = "RequestID")]
        _request_id: String,
    }
    serde_json::from_str::<Envelope>(body)
        .map_or_else(|complaint| complaint.to_string(), |_read| String::new())
}
