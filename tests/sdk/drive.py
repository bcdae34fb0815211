"""Drives one unmodified Python SDK (e2b or cubesandbox, whichever is installed) through a scenario.

    drive.py API_URL API_KEY SCENARIO [ARGUMENT...]

Scenarios:
    life            one sandbox from create to the second kill, lists and pages on the way
    foreign ID      everything that must not work on somebody else's sandbox
    create N        N sandboxes, one step each; what comes of it is the caller's business
    kill ID...      one step each
    works [ID...]   goes on working on these sandboxes (or on one of its own) until standard input ends
    session RUN     creates for a session, then does what each line of standard input orders, on what it was given
    late ID         the same on a sandbox that it knows by its id alone

One JSON object a step goes to standard output:
    {"step": "kill", "ok": true, "value": true}
    {"step": "create", "ok": true, "value": {...}, "ids": ["<the real id>"]}
    {"step": "kill", "ok": false, "error": "SandboxException", "message": "409: ...", "status": 409}
Ids inside values and messages are written <id 1>, <id 2>, ... in order of appearance, so that two runs can be compared;
times are left out. Only the control plane is used: nothing here talks to the inside of a sandbox.
DRIVE_RETRIES=0 switches the SDK's own retries off where it has any; DRIVE_LEASE goes along as X-Cube-Lease-Id, by the
SDK's own option for headers.
"""

import inspect
import json
import os
import re
import sys
import threading

# The template that the simulator always has.
TEMPLATE = "tpl-000000000000000000000001"
METADATA = {"team": "a b", "user": "ü/1", "query": "x&y=z", "share": "100%", "quote": '"\\', "empty": ""}
ID = re.compile(r"\b[0-9a-f]{32}(?:-g[0-9a-z]+)?\b")


class Names:
    """Stable names for ids, in order of appearance."""

    def __init__(self):
        self.seen = {}

    def hide(self, value):
        if isinstance(value, str):
            return ID.sub(lambda found: self.seen.setdefault(found[0], f"<id {len(self.seen) + 1}>"), value)
        if isinstance(value, dict):
            # Metadata is the client's: what looks like an id in there names nothing.
            return {key: inner if key == "metadata" else self.hide(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.hide(inner) for inner in value]
        return value


NAMES = Names()


def emit(**step):
    print(json.dumps(step, ensure_ascii=False), flush=True)


def step(name, call):
    """Runs one call, reports it, and returns what it returned (None if it raised)."""
    try:
        result = call()
    except Exception as error:
        status = getattr(error, "status_code", None)
        emit(step=name, ok=False, error=type(error).__name__, message=NAMES.hide(str(error)), status=status)
        return None
    if hasattr(result, "sandbox_id") and not hasattr(result, "metadata"):
        emit(step=name, ok=True, value=NAMES.hide({"id": result.sandbox_id}), ids=[result.sandbox_id])
    else:
        emit(step=name, ok=True, value=NAMES.hide(plain(result)))
    return result


def plain(value):
    """An SDK's answer as JSON: what is comparable, under names that all SDKs share."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict) and "sandboxID" in value:
        return info(value["sandboxID"], value["templateID"], value["state"], value.get("metadata"))
    if hasattr(value, "metadata"):
        return info(value.sandbox_id, value.template_id, value.state, value.metadata)
    return str(value)


def info(sandbox_id, template_id, state, metadata):
    state = getattr(state, "value", state)
    return {"id": sandbox_id, "template": template_id, "state": state, "metadata": dict(metadata or {})}


class E2b:
    """The e2b package, any version from 2.6 on."""

    def __init__(self, url, key):
        # The data plane points at the same address: a call that strayed there would be seen, not lost.
        os.environ.update(E2B_API_URL=url, E2B_API_KEY=key, E2B_SANDBOX_URL=url)
        import e2b

        self.e2b = e2b
        knows_retries = "retries" in inspect.signature(e2b.ConnectionConfig.__init__).parameters
        wanted = os.environ.get("DRIVE_RETRIES")
        self.options = {"retries": int(wanted)} if wanted is not None and knows_retries else {}
        if "DRIVE_LEASE" in os.environ:
            self.options["headers"] = {"X-Cube-Lease-Id": os.environ["DRIVE_LEASE"]}

    def create(self, metadata, pause_on_timeout=False):
        lifecycle = {"lifecycle": {"on_timeout": "pause", "auto_resume": True}} if pause_on_timeout else {}
        return self.e2b.Sandbox.create(TEMPLATE, timeout=300, metadata=metadata, **lifecycle, **self.options)

    def list(self, metadata):
        query = self.e2b.SandboxQuery(metadata=metadata, state=[self.e2b.SandboxState.RUNNING])
        return self.pages(query=query)[0]

    def pages(self, **arguments):
        pages, paginator = [], self.e2b.Sandbox.list(**arguments)
        while paginator.has_next:
            pages.append(paginator.next_items())
        return pages

    def page_sizes(self, metadata, limit):
        return [len(page) for page in self.pages(query=self.e2b.SandboxQuery(metadata=metadata), limit=limit)]

    def connect(self, sandbox_id):
        return self.e2b.Sandbox.connect(sandbox_id, timeout=400, **self.options)

    def get_info(self, sandbox_id):
        return self.e2b.Sandbox.get_info(sandbox_id)

    def set_timeout(self, sandbox_id, seconds):
        return self.e2b.Sandbox.set_timeout(sandbox_id, seconds, **self.options)

    def pause(self, sandbox_id):
        return self.e2b.Sandbox.pause(sandbox_id)

    def kill(self, sandbox_id):
        return self.e2b.Sandbox.kill(sandbox_id, **self.options)


class Cube:
    """The cubesandbox package; what it calls on an instance is called on one made from the id alone."""

    def __init__(self, url, key):
        os.environ.update(CUBE_API_URL=url, CUBE_API_KEY=key)
        import cubesandbox

        self.cube = cubesandbox

    def of(self, sandbox_id):
        return self.cube.Sandbox({"sandboxID": sandbox_id}, config=self.cube.Config())

    def create(self, metadata, pause_on_timeout=False):
        lifecycle = {"on_timeout": "pause", "auto_resume": True} if pause_on_timeout else None
        return self.cube.Sandbox.create(TEMPLATE, timeout=300, metadata=metadata, lifecycle=lifecycle)

    def list(self, metadata):
        # This SDK cannot filter: its users do.
        holds = lambda item: metadata.items() <= (item.get("metadata") or {}).items()
        return [item for item in self.cube.Sandbox.list_v2() if holds(item)]

    def page_sizes(self, metadata, limit):
        return [len(self.list(metadata))]

    def connect(self, sandbox_id):
        return self.cube.Sandbox.connect(sandbox_id, timeout=400)

    def get_info(self, sandbox_id):
        return self.of(sandbox_id).get_info()

    def set_timeout(self, sandbox_id, seconds):
        return self.of(sandbox_id).set_timeout(seconds)

    def pause(self, sandbox_id):
        return self.of(sandbox_id).pause()

    def kill(self, sandbox_id):
        return self.of(sandbox_id).kill()


def life(sdk):
    sandbox = step("create", lambda: sdk.create(METADATA))
    if sandbox is None:
        return
    own = sandbox.sandbox_id
    step("list", lambda: sdk.list({"team": "a b", "query": "x&y=z"}))
    step("list nothing", lambda: sdk.list({"team": "nobody's"}))
    step("get_info", lambda: sdk.get_info(own))
    step("connect", lambda: sdk.connect(own))
    step("set_timeout", lambda: sdk.set_timeout(own, 600))
    step("pause", lambda: sdk.pause(own))
    step("get_info paused", lambda: sdk.get_info(own))
    step("connect again", lambda: sdk.connect(own))
    step("get_info running", lambda: sdk.get_info(own))
    others = [step("create pausing", lambda: sdk.create({"page": "1"}, pause_on_timeout=True)) for _ in range(3)]
    step("pages", lambda: sdk.page_sizes({"page": "1"}, 2))
    for other in filter(None, others):
        step("kill other", lambda: sdk.kill(other.sandbox_id))
    step("kill", lambda: sdk.kill(own))
    step("kill again", lambda: sdk.kill(own))
    step("get_info killed", lambda: sdk.get_info(own))
    step("set_timeout killed", lambda: sdk.set_timeout(own, 60))
    step("connect killed", lambda: sdk.connect(own))


def foreign(sdk, sandbox_id):
    step("get_info", lambda: sdk.get_info(sandbox_id))
    step("connect", lambda: sdk.connect(sandbox_id))
    step("set_timeout", lambda: sdk.set_timeout(sandbox_id, 60))
    step("pause", lambda: sdk.pause(sandbox_id))
    step("list", lambda: sdk.list({}))
    step("kill", lambda: sdk.kill(sandbox_id))


def create(sdk, count):
    for _ in range(int(count)):
        step("create", lambda: sdk.create({"run": "many"}))


def kill(sdk, *sandbox_ids):
    for sandbox_id in sandbox_ids:
        step("kill", lambda: sdk.kill(sandbox_id))


def works(sdk, *sandbox_ids):
    """Rounds of the usual calls; the first that goes wrong ends it. Says 'ready' after the first whole round."""
    told_to_stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), told_to_stop.set()), daemon=True).start()
    own = None if sandbox_ids else sdk.create({"run": "works"}).sandbox_id
    rounds = 0
    while not told_to_stop.is_set():
        for sandbox_id in sandbox_ids or [own]:
            try:
                sdk.set_timeout(sandbox_id, 600)
                assert plain(sdk.get_info(sandbox_id))["id"] == sandbox_id
                assert sdk.connect(sandbox_id).sandbox_id == sandbox_id
                assert any(plain(item)["id"] == sandbox_id for item in sdk.list({}))
            except Exception as error:
                emit(step="works", ok=False, error=type(error).__name__, message=NAMES.hide(str(error)), rounds=rounds)
                return
        rounds += 1
        if rounds == 1:
            emit(step="ready", ok=True, value=None)
    if own is not None:
        step("kill", lambda: sdk.kill(own))
    emit(step="works", ok=True, value=None, rounds=rounds)


def session(sdk, run):
    sandbox = step("create", lambda: sdk.create({"session_id": run}, pause_on_timeout=True))
    obey(
        {
            "kill": lambda: sandbox.kill(),
            "set_timeout": lambda: sandbox.set_timeout(0),
            "connect": lambda: sdk.connect(sandbox.sandbox_id),
            "connect and kill": lambda: sdk.connect(sandbox.sandbox_id).kill(),
        }
    )


def late(sdk, sandbox_id):
    obey(
        {
            "kill": lambda: sdk.kill(sandbox_id),
            "set_timeout": lambda: sdk.set_timeout(sandbox_id, 0),
            "connect and kill": lambda: sdk.connect(sandbox_id).kill(),
        }
    )


def obey(calls):
    """One step for each order, until there are no more."""
    for order in map(str.strip, sys.stdin):
        step(order, calls[order])


def main(url, key, scenario, *arguments):
    try:
        sdk = E2b(url, key)
    except ImportError:
        sdk = Cube(url, key)
    scenarios = [life, foreign, create, kill, works, session, late]
    {known.__name__: known for known in scenarios}[scenario](sdk, *arguments)


main(*sys.argv[1:])
