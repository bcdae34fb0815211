#!/usr/bin/env python3
"""Writes the four Grafana dashboards of this directory: python3 dashboards/make.py

A dashboard in JSON is a thousand lines, of which ten matter; those ten stand here. The JSON files are kept beside this
script, so that nobody needs it to use them; a test runs it and holds them equal.

What must stay true: each panel says what to do (its description), has a unit, and uses only metrics that exist. Counters are
added up over the wardens of a job; what follows from the ledger is the same at each of them, so the greatest is taken.
"""

import copy
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, ORANGE, RED = "green", "orange", "red"
JOB = '{job="$job"}'
BUCKET = '{job="$job",bucket=~"$bucket"}'
RATE = "[$__rate_interval]"


def ledger(metric, by="", also="", bucket=False):
    """A gauge that every warden reads from the same ledger."""
    labels = 'job="$job"' + (',bucket=~"$bucket"' if bucket else "") + ("," + also if also else "")
    return f"max by ({by}) (cubewarden_{metric}{{{labels}}})" if by else f"max(cubewarden_{metric}{{{labels}}})"


def rate(metric, by, also="", bucket=False):
    """Events a second, over all wardens."""
    labels = 'job="$job"' + (',bucket=~"$bucket"' if bucket else "") + ("," + also if also else "")
    return f"sum by ({by}) (rate(cubewarden_{metric}{{{labels}}}{RATE}))"


def quantile(share, by, also=""):
    """Of the time until the head of Cube's answer."""
    return f"histogram_quantile({share}, {rate('upstream_seconds_bucket', 'le, ' + by, also)})"


# What the collector found is shown by every warden that ever led it; the one that leads now is right.
LEADS = 'and on (job, instance) (cubewarden_collector_leader{job="$job"} == 1)'


def found(metric, by="", bucket=True):
    """A gauge of the collector's last cycle."""
    labels = BUCKET if bucket else JOB
    by = f" by ({by}) " if by else ""
    return f"sum{by}(cubewarden_{metric}{labels} {LEADS})"


HELD = f"sum by (bucket) ({ledger('entries', 'bucket, state', bucket=True)})"
# A bucket without a limit has -1 and drops out. Where wardens differ, the smaller limit holds.
LIMIT = f"(min by (bucket) (cubewarden_bucket_limit{BUCKET}) > 0)"


def in_state(name):
    """Entries in one state, in all buckets that are shown."""
    of_state = ledger("entries", "bucket", f'state="{name}"', bucket=True)
    return f"sum({of_state})"


def reconciled(result):
    """How often within a day."""
    return f'sum(increase(cubewarden_reconciled_total{{job="$job",result="{result}"}}[24h]))'


def steps(*levels):
    """steps((0.8, ORANGE), (0.95, RED)): green below the first."""
    return {"mode": "absolute", "steps": [{"color": GREEN, "value": None}]
            + [{"color": colour, "value": value} for value, colour in levels]}


def words(**meanings):
    """words(_0=("closed", GREEN)): a number is shown as a word."""
    options = {key[1:]: {"text": text, "color": colour, "index": at}
               for at, (key, (text, colour)) in enumerate(meanings.items())}
    return [{"type": "value", "options": options}]


def panel(kind, title, queries, says, unit="short", width=12, height=8, thresholds=None, mappings=None,
          stacked=False, low=0, high=None):
    """`queries` is one expression, or pairs of an expression and its legend."""
    if isinstance(queries, str):
        queries = [(queries, "")]
    instant = kind in ("stat", "bargauge")
    targets = [{"datasource": SOURCE, "refId": chr(ord("A") + at), "expr": expr, "legendFormat": legend or "__auto",
                "instant": instant, "range": not instant} for at, (expr, legend) in enumerate(queries)]
    defaults = {"unit": unit, "min": low, "thresholds": thresholds or steps(), "mappings": mappings or []}
    if high is not None:
        defaults["max"] = high
    if kind == "timeseries":
        defaults["custom"] = {"fillOpacity": 20 if stacked else 5, "lineWidth": 1, "showPoints": "never",
                              "stacking": {"mode": "normal" if stacked else "none"},
                              "thresholdsStyle": {"mode": "dashed" if thresholds else "off"}}
        options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                   "tooltip": {"mode": "multi", "sort": "desc"}}
    else:
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "orientation": "auto"}
        options |= {"colorMode": "background"} if kind == "stat" else {"displayMode": "basic"}
    return {"type": kind, "title": title, "description": says, "datasource": SOURCE, "targets": targets,
            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
            "gridPos": {"w": width, "h": height}}


def stat(title, query, says, **more):
    return panel("stat", title, query, says, **({"width": 4, "height": 4} | more))


def lines(title, queries, says, **more):
    return panel("timeseries", title, queries, says, **more)


def variable(name, label, query, multi):
    more = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "refresh": 2, "sort": 1,
            "definition": query, "query": {"query": query, "refId": name}} | (more if multi else {})


def dashboard(name, title, says, panels):
    # Some panels stand in several dashboards, each time elsewhere.
    panels = copy.deepcopy(panels)
    across, down, row = 0, 0, 0
    for number, one in enumerate(panels, start=1):
        place = one["gridPos"]
        if across + place["w"] > 24:
            across, down, row = 0, down + row, 0
        place["x"], place["y"], one["id"] = across, down, number
        across, row = across + place["w"], max(row, place["h"])
    variables = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1},
        variable("job", "Job (one for each ledger)", "label_values(cubewarden_ledger_up, job)", multi=False),
        variable("bucket", "Bucket", 'label_values(cubewarden_entries{job="$job"}, bucket)', multi=True),
    ]
    links = [{"type": "dashboards", "title": "cubewarden", "tags": ["cubewarden"], "asDropdown": True,
              "includeVars": True, "keepTime": True}]
    return name, {
        "uid": f"cubewarden-{name}", "title": title, "description": says, "tags": ["cubewarden"], "editable": True,
        "schemaVersion": 39, "version": 1, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser", "graphTooltip": 1, "links": links, "annotations": {"list": []},
        "templating": {"list": variables}, "panels": panels,
    }


FULL = rate("refusals_total", "bucket", 'reason="CAPACITY_EXCEEDED"', bucket=True)
PASSING = ledger("entries", "bucket, state", 'state=~"ambiguous|killing|quarantined"', bucket=True)
UNKNOWN = 'cubewarden_upstream_answers_total{job="$job",outcome="unknown"}'

# ------------------------------------------------------------------------------------------------ panels of several

LEDGER_UP = stat(
    "Ledger", f"min(cubewarden_ledger_up{JOB})",
    "Does the ledger answer each warden? If not, creates and deletes are refused with LEDGER_UNAVAILABLE. Look at "
    "/readyz, then at the disk or at Redis. Runbook: ledger unreachable.",
    mappings=words(_0=("unreachable", RED), _1=("answers", GREEN)), thresholds=steps((0, RED), (1, GREEN)))
LEDGER_WHOLE = stat(
    "Ledger whole", f"max(cubewarden_ledger_lost{JOB})",
    "lost: the ledger has forgotten what it had confirmed, or is being rebuilt; creates and collector wait. Look at the store before "
    "anything else. Runbook: ledger lost.",
    mappings=words(_0=("whole", GREEN), _1=("lost", RED)), thresholds=steps((1, RED)))
LIMITS_AGREE = stat(
    "Limits agree", f"max(cubewarden_limits_disagree{JOB})",
    "Wardens of one ledger run with different limits; the smaller hold. Give all of them the same file. Runbook: limits disagree.",
    mappings=words(_0=("yes", GREEN), _1=("no", ORANGE)), thresholds=steps((1, ORANGE)))
ZOMBIES = stat(
    "Zombies", found("zombies"),
    "Sandboxes that nothing keeps: no lease, no end ahead, no hold. What their bucket's policy does not end stays, and costs. Look at "
    "/v1/admin/collector, then set a retention or a lifetime. Runbook: zombies growing.", thresholds=steps((20, ORANGE), (100, RED)))
LISTING = stat(
    "Cube's list", f"max(cubewarden_listing_verdict{{job=\"$job\",verdict!=\"trusted\"}} {LEADS})",
    "not trusted: the list left out sandboxes, or did not come. Nothing is judged by it. Look at /v1/admin/collector and at Cube's "
    "hosts. "
    "Runbook: listing lies.",
    mappings=words(_0=("trusted", GREEN), _1=("not trusted", RED)), thresholds=steps((1, RED)))
QUARANTINED = stat(
    "Quarantined", in_state("quarantined"),
    "Sandboxes that Cube would not end after many attempts. They still hold their slots. Look at "
    "/v1/admin/sandboxes?state=quarantined. Runbook: quarantine.", thresholds=steps((1, RED)))
ROUND = stat(
    "Made round the warden, 24 h", reconciled("round"),
    "Sandboxes that appeared at Cube without passing here. Somebody reaches CubeAPI or CubeMaster directly: close that way. "
    "Runbook: made round the warden.", thresholds=steps((0.5, RED)), unit="none")
REFUSALS = lines(
    "Refusals by reason", [(rate("refusals_total", "reason", bucket=True) + " > 0 or "
                            + f"sum(rate(cubewarden_refusals_total{BUCKET}{RATE}))", "{{reason}}")],
    "Why the warden said no; the line without a name is the sum. CAPACITY_EXCEEDED: raise the limit, set a retention, or end "
    "sandboxes. RATE_LIMITED: the caller is too fast. LEDGER_UNAVAILABLE: see the ledger. The README lists all of them.",
    unit="reqps")
FULLEST = panel(
    "bargauge", "Fullest buckets", [(f"topk(8, {HELD} / {LIMIT})", "{{bucket}}")],
    "Share of the limit that is held, paused sandboxes too. Near 100 %: see what holds the slots in "
    "/v1/admin/buckets, then end sandboxes, set a retention, or raise the limit. Buckets without a limit are not "
    "shown. Runbook: quota nearly full.", unit="percentunit", high=1, thresholds=steps((0.8, ORANGE), (0.95, RED)))

BREAKERS = stat(
    "Breakers", f"max(cubewarden_breaker_state{JOB})",
    "open: Cube's writes fail, and the warden refuses creates with WRITE_PATH_OPEN (or lets deletes rest) until a probe is done. "
    "half-open: a probe is under way. Look at Cube first. Runbook: breaker open.",
    mappings=words(_0=("closed", GREEN), _1=("half-open", ORANGE), _2=("open", RED)),
    thresholds=steps((1, ORANGE), (2, RED)))
BACKLOG = stat(
    "Deletes that wait", f"max(cubewarden_delete_backlog{JOB})",
    "Condemned sandboxes that Cube has not confirmed gone, without the quarantined ones. It drains by itself once Cube takes "
    "deletes again. Runbook: backlog stands.", thresholds=steps((20, ORANGE), (200, RED)))

# ------------------------------------------------------------------------------------------------------- dashboards

OVERVIEW = dashboard(
    "overview", "cubewarden: overview", "Is all well? If not, which of the other three dashboards says why.", [
        LEDGER_UP,
        stat("Slots held", f"sum({HELD})",
             "Entries that hold a slot: sandboxes that live, running or paused, and those that come or go. Compare with what "
             "Cube lists; the warden's own view is /v1/admin/buckets."),
        QUARANTINED,
        stat("Creates in doubt", in_state("ambiguous"),
             "Creates whose answer was lost. They hold a slot until they are found or proven never to have been, within about "
             "fifteen minutes. If they stay, Cube cannot be listed. Runbook: creates in doubt.",
             thresholds=steps((1, ORANGE), (20, RED))),
        ROUND,
        stat("Defects, 24 h", f"sum(increase(cubewarden_panics_total{JOB}[24h]))",
             "Defects of the warden, each of which ended one call. Find \"panicked\" in its log and report it. Runbook: defect.",
             thresholds=steps((0.5, RED)), unit="none"),
        LEDGER_WHOLE,
        LIMITS_AGREE,
        BREAKERS,
        BACKLOG,
        ZOMBIES,
        LISTING,
        lines("Governed calls by outcome", [(rate("calls_total", "outcome"), "{{outcome}}")],
              "How calls ended for their callers. refused: the warden said no, see refusals. upstream_error and "
              "unknown: Cube failed or its answer was lost, see the write path.", unit="reqps", stacked=True),
        lines("Creates and deletes", [(rate("calls_total", "call, outcome", 'call=~"sandbox_(create|delete)"'),
                                       "{{call}} {{outcome}}")],
              "The two calls that everything turns on. Creates without deletes fill the buckets: look at quota and admission.",
              unit="reqps"),
        REFUSALS,
        FULLEST,
        lines("Time until Cube answers", [(quantile(0.5, "method", 'asker="call"'), "{{method}} median"),
                                          (quantile(0.99, "method", 'asker="call"'), "{{method}} p99")],
              "Of governed calls that went to Cube. If POST slows down, Cube is short of something: see the write path and "
              "Cube's own metrics. The warden itself adds a few milliseconds.", unit="s",
              thresholds=steps((10, ORANGE), (30, RED))),
        lines("Governed and passed", [(f"sum(rate(cubewarden_calls_total{JOB}{RATE}))", "governed"),
                                      (f"sum(rate(cubewarden_pass_through_requests_total{JOB}{RATE}))", "passed"),
                                      (f"sum(rate(cubewarden_ungoverned_writes_total{JOB}{RATE}))", "unknown writes")],
              "Everything that came in. Unknown writes are those that no rule knows: refused for tenants, passed in "
              "open mode. Find out who sends them. Runbook: unknown writes.", unit="reqps"),
    ])

QUOTA = dashboard(
    "quota", "cubewarden: quota and admission", "Who holds the slots, who waits, and who is refused.", [
        FULLEST,
        lines("Slots held and limit", [(HELD, "{{bucket}}"), (LIMIT, "{{bucket}} limit")],
              "A line that touches its limit: creates wait, then get CAPACITY_EXCEEDED. A limit lowered below what is held ends "
              "nothing; it only stops new ones.", unit="short"),
        lines("Slots by state", [(f"sum by (state) ({ledger('entries', 'bucket, state', bucket=True)})", "{{state}}")],
              "live is normal. reserved and dispatched last for one create. ambiguous, killing and quarantined should go "
              "away again: see leaks and collector.", stacked=True),
        lines("Paused", [(ledger("paused", "bucket", bucket=True), "{{bucket}}")],
              "Paused sandboxes hold a slot. If most of a full bucket is paused, set bucket.retention; "
              "with 0 they are kept for ever.", stacked=True),
        lines("Admitted", [(rate("admissions_total", "bucket", bucket=True), "{{bucket}}")],
              "Creates that got a slot. Falls to zero while a bucket is full, the ledger is away, or nobody asks.", unit="reqps"),
        lines("Waiting for a slot", [(f"sum by (bucket) (cubewarden_waiting{BUCKET})", "{{bucket}}")],
              "Creates that wait now, for up to admission.wait. A line that stays up: the bucket is too small for its load."),
        REFUSALS,
        lines("Refusals by bucket", [(rate("refusals_total", "bucket", bucket=True), "{{bucket}}")],
              "Whom it hits. other: refused before a bucket was known, for instance for a wrong key.", unit="reqps"),
        lines("Share of creates refused for want of room",
              [(f"{FULL} / clamp_min({FULL} + {rate('admissions_total', 'bucket', bucket=True)}, 1e-9)", "{{bucket}}")],
              "Of creates that asked for a slot. Above a few percent for long: raise the limit or shorten lives "
              "(default_timeout, retention).", unit="percentunit", high=1, thresholds=steps((0.05, ORANGE), (0.5, RED))),
        lines("Callers without a key or right",
              [(rate("refusals_total", "reason", 'reason=~"UNAUTHENTICATED|FORBIDDEN_.*|NOT_FOUND"'), "{{reason}}")],
              "UNAUTHENTICATED: a key that no tenant has; was one changed? FORBIDDEN_BUCKET: namespace or env of another tenant. "
              "Many NOT_FOUND: somebody tries ids, or clients delete twice.", unit="reqps"),
    ])

LEAKS = dashboard(
    "leaks", "cubewarden: leaks and collector", "What should be gone and is not, and what the warden does about it.", [
        ZOMBIES,
        stat("Oldest zombie", f"max(cubewarden_oldest_zombie_seconds{BUCKET} {LEADS})",
             "For how long nothing has kept the oldest of them. Find it in /v1/admin/sandboxes and decide: end it, or give its bucket a "
             "retention or a ceiling (max_age). Runbook: oldest zombie.", unit="s", thresholds=steps((86400, ORANGE), (604800, RED))),
        LISTING,
        stat("Drift", f"sum(cubewarden_drift{JOB} {LEADS})",
             "Where ledger and Cube differ: charged and not shown, or shown and not charged. Healthy is zero; a few for a cycle are "
             "normal. Runbook: drift.", thresholds=steps((1, ORANGE), (20, RED))),
        stat("Collector leads", f"sum(cubewarden_collector_leader{JOB})",
             "One warden of each ledger leads the collector. 0 for longer than a few cycles: none can reach the ledger or list "
             "Cube, and nothing is collected; see /readyz.", thresholds=steps((0, RED), (1, GREEN), (2, ORANGE))),
        stat("Cycle p99", f"histogram_quantile(0.99, sum by (le) (rate(cubewarden_collector_cycle_seconds_bucket{JOB}[1h])))",
             "How long one cycle of the collector takes. Near collector.cycle: Cube's list is slow, or very many are asked about one by "
             "one. Lengthen the cycle or mend Cube.", unit="s", thresholds=steps((30, ORANGE), (60, RED))),
        lines("Zombies by age", [(found("zombies", "age"), "{{age}}")],
              "Young ones come and go. weeks that grow: buckets without a retention or a lifetime. "
              "/v1/admin/collector says by bucket which retention would end them.", stacked=True),
        lines("Zombies by state", [(found("zombies", "state"), "{{state}}")],
              "paused: kept because retention is 0 or not over. running: nobody tells whether they are in use. quarantined: "
              "Cube refuses to end them.", stacked=True),
        lines("What they hold: processors", [(found("kept_millicpu", "bucket") + " / 1000", "{{bucket}}")],
              "Processors of what is kept though nothing keeps it. This is what a retention would give back.", stacked=True),
        lines("What they hold: memory", [(found("kept_memory_mebibytes", "bucket"), "{{bucket}}")],
              "Memory of what is kept though nothing keeps it. This is what a retention would give back.", unit="mbytes", stacked=True),
        lines("Collected", [(rate("collected_total", "reason"), "{{reason}}")],
              "What the collector condemned, and by which policy. A sudden hill: was a policy changed? It is capped by "
              "collector.max_kills_per_cycle. /v1/admin/decisions has each.", unit="reqps"),
        lines("What operators were told", [(f"sum by (event) (increase(cubewarden_events_total{JOB}{RATE}))", "{{event}}"),
                                           (f"sum by (result) (increase(cubewarden_webhook_deliveries_total{JOB}{RATE}))",
                                            "webhook {{result}}")],
              "list_lies and quarantined want a person. webhook failed or lost: the receiver at collector.webhook_url does not answer; "
              "the log has the same events."),
        QUARANTINED,
        stat("Being ended", in_state("killing"),
             "Sandboxes whose end is written down and not yet confirmed by Cube. Some are normal; a number that only grows means "
             "that Cube's deletes fail: see the write path.", thresholds=steps((20, ORANGE), (200, RED))),
        stat("Creates in doubt", in_state("ambiguous"),
             "Creates whose answer was lost. Settled within about fifteen minutes if Cube can be listed. Runbook: "
             "creates in doubt.", thresholds=steps((1, ORANGE), (20, RED))),
        stat("Foreign", ledger("foreign_sandboxes"),
             "Sandboxes at this Cube that another ledger made, or nobody (with adopt.bucket = none). The warden never touches "
             "them. If there should be no other warden, find out who makes them. Runbook: foreign sandboxes.",
             thresholds=steps((1, ORANGE))),
        ROUND,
        stat("Without a record, 24 h",
             reconciled("unrecorded"),
             "Sandboxes with this ledger's labels that the ledger did not know and took in again. It has lost something: was it "
             "restored from an old copy? Runbook: drift.", thresholds=steps((0.5, RED)), unit="none"),
        lines("Ends by result", [(rate("kills_total", "result"), "{{result}}")],
              "gone: the warden's DELETE was confirmed. already_gone: somebody or Cube was faster. failed: tried again. "
              "quarantined: given up for now. If failed outweighs gone, Cube's deletes are ill.", unit="reqps"),
        lines("What a lost ledger got back", [(f"sum by (source) (increase(cubewarden_ledger_rebuilt_entries_total{JOB}{RATE}))",
                                              "{{source}}"),
                                             (f"sum(increase(cubewarden_ledger_rebuilds_total{JOB}{RATE}))", "rebuilds"),
                                             (ledger("ledger_rebuilt_over_limit"), "slots beyond limits")],
              "memory: what wardens remembered. listing: what Cube listed; these have unproven holders. Slots beyond limits were admitted "
              "while the ledger had forgotten others: they go as sandboxes end. Runbook: ledger lost."),
        lines("What the reconciler settled",
              [(f"sum by (result) (increase(cubewarden_reconciled_total{JOB}{RATE}))", "{{result}}")],
              "found, claimed, unclaimed, never_came: ends of creates in doubt. ended: Cube's own sweeper was here. imported: "
              "there before the warden. round: made round it. unrecorded: the ledger had lost it."),
        lines("Wishes to end a sandbox", [(rate("decisions_total", "decision"), "{{decision}}")],
              "fenced: an earlier holder tried to end what a later one has; nothing was deleted. defer: a claim was given up, it "
              "ends when nobody needs it. later: something was under way. /v1/admin/explain/ID says which and why.",
              unit="reqps"),
        lines("Leases", [(rate("lease_events_total", "event"), "{{event}}")],
              "renewal_failed: Cube did not honour a renewal, the sandbox may end too early. sealed and mismatch: a holder that was "
              "overtaken still acts; let it stop. No beat while leases are held: clients have stopped their heartbeats.",
              unit="reqps"),
        lines("States that should pass",
              [(f"sum by (state) ({PASSING})", "{{state}}")],
              "Hills are fine, plateaus are not. A plateau of ambiguous: Cube cannot be listed. Of killing: deletes fail. "
              "Of quarantined: a person must look.", stacked=True),
        lines("Paused", [(ledger("paused", "bucket", bucket=True), "{{bucket}}")],
              "Kept for ever where retention is 0. A line that only grows is memory and disk of Cube's hosts: set bucket.retention.",
              stacked=True),
    ])

WRITES = dashboard(
    "writes", "cubewarden: write path", "How Cube takes creates and deletes.", [
        BREAKERS,
        BACKLOG,
        stat("Deletes confirmed in the last minute", f"sum(cubewarden_deletes_last_minute{JOB})",
             "How fast the backlog drains. Zero while deletes wait: Cube takes none. Runbook: backlog stands."),
        stat("Recovering", f"max(cubewarden_recovering{JOB})",
             "While a backlog of deletes stands, creates are paid with confirmed deletes. It ends by itself; if it does not, see the "
             "backlog.", mappings=words(_0=("no", GREEN), _1=("creates wait for deletes", ORANGE)),
             thresholds=steps((1, ORANGE))),
        lines("Breakers over time", [(f"max by (path) (cubewarden_breaker_state{JOB})", "{{path}}")],
              "0 closed, 1 half-open, 2 open, the worst of all wardens. Flapping: Cube takes one write and fails at the next; lower "
              "write_path.max_writes or the load.", high=2, thresholds=steps((1, ORANGE), (2, RED))),
        lines("How breakers moved", [(f"sum by (path, change) (increase(cubewarden_breaker_changes_total{JOB}{RATE}))",
                                      "{{path}} {{change}}")],
              "opened: too many answers said nothing. probed and probe_failed: Cube is still ill. closed: it is well again."),
        lines("Writes on their way", [(f"sum by (lane) (cubewarden_writes_in_flight{JOB})", "{{lane}}"),
                                      (f"sum(cubewarden_write_limit{JOB})", "limit")],
              "By what they are for. The limit shrinks when answers get lost and grows again with successes. On the limit for long: Cube "
              "is slower than what is asked of it."),
        lines("Writes that wait", [(f"sum by (lane) (cubewarden_writes_waiting{JOB})", "{{lane}}")],
              "For a place among those on their way. Deletes have half of the places for themselves. If creates wait, they do so "
              "because Cube is slow, not because a bucket is full.", stacked=True),
        lines("Deletes that wait and that are confirmed",
              [(f"max(cubewarden_delete_backlog{JOB})", "waiting"),
               (f"sum(cubewarden_deletes_last_minute{JOB})", "confirmed in a minute")],
              "The one divided by the other is how many minutes the backlog takes. A backlog that only grows: see the runbook, backlog "
              "stands."),
        lines("How long creates take", [(f"max by (bucket) (cubewarden_create_latency_milliseconds{BUCKET})", "{{bucket}} lately"),
                                        (f"max by (bucket) (cubewarden_create_latency_usual_milliseconds{BUCKET})",
                                         "{{bucket}} usually")],
              "Lately far above usually: Cube is getting slow, before anything fails. Look at the hosts' load and at templates that "
              "were just made.", unit="ms"),
        lines("What Cube's answers meant", [(rate("upstream_answers_total", "outcome"), "{{outcome}}")],
              "Of creates. refused: Cube said no, nothing happened. slow_down: it asked for patience. unknown: nobody knows whether "
              "it happened; the warden searches. not_sent: Cube could not be reached.", unit="reqps", stacked=True),
        lines("Share of answers that say nothing",
              [(f"sum(rate({UNKNOWN}{RATE})) / "
                f"clamp_min(sum(rate(cubewarden_upstream_answers_total{JOB}{RATE})), 1e-9)", "unknown")],
              "Above a few percent Cube's write path is ill: look at CubeMaster and Cubelet before anything else. Runbook: answers "
              "that say nothing.", unit="percentunit", high=1, thresholds=steps((0.1, ORANGE), (0.5, RED))),
        lines("Time until Cube answers, by asker", [(quantile(0.99, "asker"), "{{asker}} p99"),
                                                    (quantile(0.5, "asker"), "{{asker}} median")],
              "call: governed calls. pass_through: what only passes. task: the warden's own questions, listings and kills. If all rise "
              "together, Cube is slow; if one does, its kind of call is.", unit="s", thresholds=steps((10, ORANGE), (30, RED))),
        lines("Time until Cube answers, by method", [(quantile(0.99, "method"), "{{method}} p99")],
              "POST are creates and connects, DELETE are ends, GET is reading. A p99 at 30 s is Cube's own time limit.", unit="s",
              thresholds=steps((10, ORANGE), (30, RED))),
        lines("Calls to Cube", [(rate("upstream_seconds_count", "method"), "{{method}}")],
              "Load on Cube from this side. A hill of DELETE after an outage is the backlog being carried out.", unit="reqps"),
        lines("Attempts to end a sandbox", [(rate("kills_total", "result"), "{{result}}")],
              "failed above zero for long: Cube refuses deletes, see the log for its words. quarantined: see leaks and collector.",
              unit="reqps"),
        lines("Mends", [(rate("mends_total", "mend"), "{{mend}}")],
              "Where the warden mends what SDKs and this Cube make of each other. v2_create: clients are newer than Cube. error_bodies: "
              "Cube answers errors that SDKs cannot read. Each has a switch under [compat].", unit="reqps"),
        lines("Labels that clients sent", f"sum(rate(cubewarden_reserved_metadata_overwritten_total{JOB}{RATE}))",
              "Applications that copy a sandbox's metadata into the next send the warden's own keys along; they are overwritten. "
              "Harmless, unless the keys are really the application's: then set identity.metadata_prefix.", unit="reqps"),
    ])


def main():
    for name, content in (OVERVIEW, QUOTA, LEAKS, WRITES):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE).joinpath(f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
