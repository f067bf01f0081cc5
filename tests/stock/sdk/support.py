"""The runner of the checks, and the few verbs they are written in: connect, accept, refuse, read, follow, post.

What belongs here: waiting with a deadline, counting, and thin wrappings of the API of nostr-sdk. What must not: a check.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from nostr_sdk import (
    Authenticator, ClientBuilder, ClientMessage, Event, EventBuilder, Filter, Keys, Kind, NostrSdkError, RelayUrl,
    ReqTarget, SignerAuthenticator, SingleLetterTag, Tag, Timestamp, uniffi_set_event_loop,
)

DEADLINE = timedelta(seconds=10)
# A refusal starts with a one-word prefix; the library's own failures (timeout, not connected) do not.
REFUSAL = re.compile(r"[a-z-]+: .")


@dataclass
class Run:
    """What one run of the script aims at and has counted."""

    url: str = ""
    passed: int = 0
    failed: int = 0
    lines: list["Line"] = field(default_factory=list)


RUN = Run()


# --- the runner -------------------------------------------------------------------------------------------------------


async def aim(url: str) -> None:
    """Names the relay under test; comes before everything else."""
    RUN.url = url
    # The library calls back from threads of its own, which have no event loop.
    uniffi_set_event_loop(asyncio.get_running_loop())


def check(name: str):
    """A context in which one check runs; it prints the line of the check, and a failure never ends the run."""

    @contextlib.asynccontextmanager
    async def context():
        try:
            yield
        except Exception as error:  # whatever went wrong belongs to this check
            RUN.failed += 1
            why = " ".join(f"{type(error).__name__} {error}".split())
            print(f"not ok {name}: {why}", flush=True)
        else:
            RUN.passed += 1
            print(f"ok {name}", flush=True)

    return context()


async def verdict(checks_expected: int) -> bool:
    """Closes everything and prints the last line; true only if every expected check ran and passed."""
    for line in RUN.lines:
        await line.client.shutdown()
    ran = RUN.passed + RUN.failed
    if ran != checks_expected:
        print(f"{ran} checks ran where {checks_expected} were expected")
    print(f"{RUN.passed} passed, {RUN.failed} failed", flush=True)
    return RUN.failed == 0 and ran == checks_expected


def equal(found, wanted, what: str = "") -> None:
    assert found == wanted, f"{what}: {found!r} where {wanted!r} was due"


# --- keys and events --------------------------------------------------------------------------------------------------


def now() -> int:
    """Unix seconds."""
    return int(time.time())


class Person:
    """A fresh key and what it signs."""

    def __init__(self):
        self.keys = Keys.generate()
        self.key = self.keys.public_key()
        self.pubkey = self.key.to_hex()

    def event(self, kind: int, tags: list = (), content: str = "", created_at: int | None = None) -> Event:
        """A signed event; a tag is a Tag of the library or a list of strings."""
        parsed = [tag if isinstance(tag, Tag) else Tag.parse(tag) for tag in tags]
        builder = EventBuilder(Kind(kind), content).tags(parsed)
        if created_at is not None:
            builder = builder.custom_created_at(Timestamp.from_secs(created_at))
        return builder.finalize(self.keys)


def id_of(event: Event) -> str:
    return event.id().to_hex()


def tags_of(event: Event) -> list[list[str]]:
    return [tag.to_vec() for tag in event.tags()]


def values(event: Event, name: str) -> list[str]:
    """First values of all tags of one name, in order."""
    return [tag[1] for tag in tags_of(event) if tag[0] == name]


def same_events(found: list[Event], wanted: list[Event]) -> None:
    """The same events, in any order, each once."""
    equal(sorted(map(id_of, found)), sorted(map(id_of, wanted)))


def letter(name: str) -> SingleLetterTag:
    return SingleLetterTag.from_byte(ord(name))


def of(*kinds: int) -> Filter:
    return Filter().kinds([Kind(kind) for kind in kinds])


# --- connections ------------------------------------------------------------------------------------------------------


class RecordingAuthenticator(Authenticator):
    """The library's authenticator, which also remembers the ids of the AUTH events it made."""

    def __init__(self, keys: Keys):
        self.inner = SignerAuthenticator(keys)
        self.ids: list[str] = []

    async def make_auth_event(self, relay_url, challenge):
        event = await self.inner.make_auth_event(relay_url, challenge)
        self.ids.append(id_of(event))
        return event


class Line:
    """One connection of the library, and every message the relay sent on it."""

    def __init__(self, person: Person | None):
        builder = ClientBuilder()
        self.authenticator = RecordingAuthenticator(person.keys) if person else None
        if self.authenticator:
            builder = builder.authenticator(self.authenticator)
        self.client = builder.build()
        self.messages: list[list] = []
        self.changed = asyncio.Event()

    async def open(self) -> None:
        notifications = self.client.notifications()
        self.pump = asyncio.create_task(self.collect(notifications))
        url = RelayUrl.parse(RUN.url)
        await self.client.add_relay(url)
        output = await self.client.try_connect(DEADLINE)
        assert output.success, f"connect: {list(output.failed.values())}"
        self.relay = await self.client.relay(url)

    async def collect(self, notifications) -> None:
        while (notification := await notifications.next()) is not None:
            if notification.is_message():
                self.messages.append(json.loads(notification.message.as_json()))
                self.changed.set()

    async def until(self, what: str, find):
        """The first truthy answer of `find`, asked again after every message, or an error when there was none in time."""

        async def wait():
            while not (found := find()):
                self.changed.clear()
                await self.changed.wait()
            return found

        try:
            return await asyncio.wait_for(wait(), DEADLINE.total_seconds())
        except asyncio.TimeoutError:
            raise AssertionError(f"{what}: not within {DEADLINE.total_seconds():.0f} s") from None

    def named(self, verb: str, name: str) -> list[list]:
        """The messages of one verb that name one subscription or event."""
        return [message for message in self.messages if message[:2] == [verb, name]]


async def connect(person: Person | None = None) -> Line:
    """A connection, authenticated when a person is given."""
    line = Line(person)
    RUN.lines.append(line)
    await line.open()
    if person:

        def answer():
            return [answer for auth_id in line.authenticator.ids for answer in line.named("OK", auth_id)]

        [[_, _, accepted, reason]] = await line.until("answer to AUTH", answer)
        assert accepted, f"AUTH refused: {reason}"
    return line


# --- writes -----------------------------------------------------------------------------------------------------------


async def offer(line: Line, event: Event) -> tuple[bool, str]:
    """Whether the relay accepted an EVENT, and the reason if not."""
    try:
        await line.relay.send_event(event, ok_timeout=DEADLINE)
    except NostrSdkError.Generic as error:
        reason = error[0]
        if not REFUSAL.match(reason):
            raise
        return False, reason
    return True, ""


async def accept(line: Line, event: Event) -> Event:
    accepted, reason = await offer(line, event)
    assert accepted, f"kind {event.kind().as_u16()} was refused: {reason}"
    return event


async def refuse(line: Line, event: Event, prefixes: str) -> str:
    """The reason of a refusal, which must have one of the prefixes (a regular expression without the colon)."""
    accepted, reason = await offer(line, event)
    assert not accepted, f"kind {event.kind().as_u16()} was accepted"
    assert re.match(f"(?:{prefixes}): ", reason), f"refused with {reason!r} instead of {prefixes}"
    return reason


# --- reads ------------------------------------------------------------------------------------------------------------


class Live:
    """A subscription past its EOSE, which goes on collecting."""

    def __init__(self, line: Line, name: str):
        self.line = line
        self.name = name

    @property
    def events(self) -> list[Event]:
        return [Event.from_json(json.dumps(message[2])) for message in self.line.named("EVENT", self.name)]

    async def receives(self, event: Event, what: str) -> None:
        """Waits until the subscription got the event; whatever it got so far must have come once."""
        await self.find(what, lambda found: id_of(found) == id_of(event))
        ids = [id_of(found) for found in self.events]
        equal(len(set(ids)), len(ids), f"{what}: an event was sent more than once")

    async def find(self, what: str, wanted) -> Event:
        """The first event the condition holds for; an error as soon as the relay closes the subscription."""

        def probe():
            closed = self.line.named("CLOSED", self.name)
            assert not closed, f"{what}: closed: {closed}"
            return next((event for event in self.events if wanted(event)), None)

        event = await self.line.until(what, probe)
        assert event.verify(), f"{what}: bad id or signature"
        return event


async def subscribe(line: Line, filters: tuple[Filter, ...]) -> tuple[Live, list]:
    """A new subscription and the message that ended its stored part: EOSE or CLOSED."""
    name = uuid.uuid4().hex
    output = await line.client.subscribe(ReqTarget.auto(list(filters)), name)
    assert output.success, f"REQ not sent: {list(output.failed.values())}"
    end = await line.until("EOSE or CLOSED", lambda: line.named("EOSE", name) + line.named("CLOSED", name))
    return Live(line, name), end[0]


async def follow(line: Line, *filters: Filter) -> Live:
    live, end = await subscribe(line, filters)
    equal(end[0], "EOSE", f"the relay answered {end}")
    return live


async def read(line: Line, *filters: Filter) -> list[Event]:
    """The stored events, in the order they came."""
    live = await follow(line, *filters)
    await line.client.unsubscribe(live.name)
    events = live.events
    for event in events:
        assert event.verify(), "an event with a bad id or signature"
    return events


async def closed_reason(line: Line, *filters: Filter) -> str:
    """The reason of the CLOSED that must come where an EOSE would."""
    _, end = await subscribe(line, filters)
    equal(end[0], "CLOSED", "the stored part ended with")
    return end[2]


async def counted(line: Line, wanted: Filter) -> list:
    """The message that answers a COUNT.

    Sent as a message of its own: the library's `count_events` asks before it listens, so that a relay which answers at
    once is not heard, and it does not report a CLOSED.
    """
    name = uuid.uuid4().hex
    await line.relay.send_msg(ClientMessage.count(name, wanted))
    return (await line.until("COUNT or CLOSED", lambda: line.named("COUNT", name) + line.named("CLOSED", name)))[0]


async def count(line: Line, wanted: Filter) -> int:
    answer = await counted(line, wanted)
    equal(answer[0], "COUNT", f"the relay answered {answer}")
    return answer[2]["count"]


async def count_refusal(line: Line, wanted: Filter) -> str:
    answer = await counted(line, wanted)
    equal(answer[0], "CLOSED", f"the relay answered {answer}")
    return answer[2]


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def http(path: str, headers: dict, body: str | None = None) -> tuple[int, object]:
    """Status and JSON body of an answer; POST when there is a body. Never through a proxy: the relay is local."""
    request = urllib.request.Request(http_url(path), data=body and body.encode(), headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def exchange():
        try:
            with opener.open(request, timeout=DEADLINE.total_seconds()) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.to_thread(exchange)


def http_url(path: str) -> str:
    return "http" + RUN.url.removeprefix("ws").rstrip("/") + path


async def information() -> dict:
    status, document = await http("/", {"Accept": "application/nostr+json"})
    equal(status, 200, "NIP-11")
    return document


async def post(person: Person, path: str, body: str) -> tuple[int, object]:
    """A signed HTTP request (NIP-98) of one of the three paths."""
    token = person.event(27235, [
        ["u", http_url(path)],
        ["method", "POST"],
        ["payload", hashlib.sha256(body.encode()).hexdigest()],
        # Two equal requests in one second would be one event, hence a replay: each gets a tag of its own.
        ["nonce", uuid.uuid4().hex],
    ])
    authorization = "Nostr " + base64.b64encode(token.as_json().encode()).decode()
    return await http(path, {"Authorization": authorization, "Content-Type": "application/json"}, body)


async def query(person: Person, wanted: dict) -> list[Event]:
    status, body = await post(person, "/query", json.dumps([wanted]))
    equal(status, 200, f"/query answered {body}")
    events = [Event.from_json(json.dumps(event)) for event in body]
    for event in events:
        assert event.verify(), "an event with a bad id or signature"
    return events


async def count_by_http(person: Person, wanted: dict) -> int:
    status, body = await post(person, "/count", json.dumps([wanted]))
    equal(status, 200, f"/count answered {body}")
    return body["count"]
