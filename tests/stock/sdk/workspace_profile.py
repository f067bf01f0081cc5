"""What an application of the workspace profile does: AUTH, channels, notices, messages, artifacts, HTTP.

What belongs here: checks, in the order of one story; later ones use what earlier ones made. What must not: anything
about sockets, waiting or counting, which is in support.py.
"""

import json
import re
import uuid
from types import SimpleNamespace

from nostr_sdk import Metadata, MetadataRecord, RelayInformationDocument, ReqTarget, Tag

from support import (
    DEADLINE, Person, accept, check, closed_reason, connect, count, count_by_http, count_refusal, equal, follow, http,
    id_of, information, letter, of, post, query, read, refuse, same_events, tags_of, values,
)

FEED = of(9, 45010, 45011)


def in_channel(wanted, *channels: str):
    return wanted.custom_tags(letter("h"), list(channels))


def ids(*events):
    return [event.id() for event in events]


async def run() -> None:
    # `general` is open, bob is no member of it; `inner` is private to alice.
    story = SimpleNamespace(alice=Person(), bob=Person(), general=str(uuid.uuid4()), inner=str(uuid.uuid4()))
    await connecting(story)
    await channels(story)
    await notices(story)
    await messages(story)
    await revisions(story)
    await moving_and_deleting(story)


async def connecting(story) -> None:
    async with check("the information document is read by the library and names the relay key"):
        document = await information()
        parsed = RelayInformationDocument.from_json(json.dumps(document))
        story.relay_key = parsed.self_pubkey()
        assert re.fullmatch("[0-9a-f]{64}", story.relay_key or ""), "no relay key"
        assert parsed.limitation().auth_required, "auth_required is not set"
        missing = {1, 11, 42, 45} - set(parsed.supported_nips())
        assert not missing, f"NIPs missing: {missing}"

    async with check("before AUTH nothing is read, counted or written"):
        stranger = await connect()
        assert (await closed_reason(stranger, of(9))).startswith("auth-required: ")
        assert (await count_refusal(stranger, of(9))).startswith("auth-required: ")
        await refuse(stranger, story.alice.event(9, [["h", story.general]], "too early"), "auth-required")

    async with check("AUTH with the challenge sent at connect"):
        story.on_alice = await connect(story.alice)
        story.also_alice = await connect(story.alice)
        story.on_bob = await connect(story.bob)

    async with check("profile metadata built by the library is stored and fetched"):
        carol = Person()
        on_carol = await connect(carol)
        metadata = Metadata.from_record(MetadataRecord(name="carol", about="Likes libraries"))
        event = await accept(on_carol, metadata.finalize(carol.keys))
        target = ReqTarget.auto([of(0).author(carol.key)])
        same_events(await on_carol.client.fetch_events(target, DEADLINE), [event])


async def channels(story) -> None:
    # rules: CL-ID-1, CL-ID-2, CL-ID-6, CL-ID-10
    alice, bob, general, inner = story.alice, story.bob, story.general, story.inner

    async with check("kind 9007 creates an open channel under the id the client chose"):
        tags = [["h", general], ["name", "General"], ["about", "Everything"], ["visibility", "open"]]
        await accept(story.on_alice, alice.event(9007, tags))

    async with check("kind 9007 creates a private channel"):
        tags = [["h", inner], ["name", "Inner"], ["visibility", "private"]]
        await accept(story.on_alice, alice.event(9007, tags))

    async with check("kind 39000 carries the identity tags in their order"):
        [state] = await read(story.on_bob, of(39000).identifier(general))
        equal(state.author().to_hex(), story.relay_key)
        equal((values(state, "d"), values(state, "name")), ([general], ["General"]))
        identity = [tag for tag in tags_of(state) if tag[0] in ("t", "P", "p")]
        equal(identity, [["t", "stream"], ["P", alice.pubkey]])
        [created_at] = values(state, "created_at")
        assert re.fullmatch("[1-9][0-9]*", created_at), created_at
        assert ["public"] in tags_of(state) and ["private"] not in tags_of(state), "not marked public"

    async with check("kinds 39001 and 39002 name the creator"):
        states = await read(story.on_alice, of(39001, 39002).identifier(general).pubkey(alice.key))
        equal(sorted(state.kind().as_u16() for state in states), [39001, 39002])
        for state in states:
            equal(state.author().to_hex(), story.relay_key)
            equal((values(state, "t"), values(state, "P")), (["stream"], [alice.pubkey]))
            equal(values(state, "p"), [alice.pubkey])

    async with check("a private channel answers a nonmember as an unknown one"):
        answers = []
        for channel in (inner, str(uuid.uuid4())):
            reason = await closed_reason(story.on_bob, in_channel(of(9), channel))
            assert reason.startswith("restricted: "), reason
            knock = bob.event(9, [["h", channel]], "knock")
            answers.append((reason, await refuse(story.on_bob, knock, "restricted")))
        equal(answers[0], answers[1])
        equal(await read(story.on_bob, of(39000).identifier(inner)), [])


async def notices(story) -> None:
    # rules: CL-NTC-1, CL-NTC-17, CL-NTC-18
    alice, bob, general, inner = story.alice, story.bob, story.general, story.inner
    mine = of(44100).pubkey(alice.key)

    async with check("kind 44100 tells the creator of each channel, with p, h and t"):
        found = {values(event, "h")[0]: event for event in await read(story.on_alice, mine)}
        equal(set(found), {general, inner})
        notice = found[general]
        equal(notice.author().to_hex(), story.relay_key)
        equal(tags_of(notice), [["p", alice.pubkey], ["h", general], ["t", "stream"]])
        content = json.loads(notice.content())
        equal({name: content[name] for name in ("type", "channel_id", "actor")},
              {"type": "member_added", "channel_id": general, "actor": alice.pubkey})

    async with check("kind 44100 of another key is closed as restricted, with and without ids"):
        for filter_of_another in (mine, mine.ids(ids(notice))):
            reason = await closed_reason(story.on_bob, filter_of_another)
            assert reason.startswith("restricted: "), reason
        assert (await count_refusal(story.on_bob, mine)).startswith("restricted: ")
        equal(await read(story.on_bob, of(44100).pubkey(bob.key)), [])


async def messages(story) -> None:
    alice, bob, general, inner = story.alice, story.bob, story.general, story.inner

    async with check("a second connection receives kind 9 live"):
        story.bob_live = await follow(story.on_bob, in_channel(FEED, general))
        story.alice_live = await follow(story.also_alice, in_channel(FEED, general, inner))
        message = await accept(story.on_alice, alice.event(9, [["h", general]], 'Good morning 🎉 "\\\n'))
        await story.bob_live.receives(message, "kind 9 to bob")
        await story.alice_live.receives(message, "kind 9 to the second connection of alice")

    async with check("kind 9 is stored, found and counted"):
        reply = await accept(story.on_bob, bob.event(9, [["h", general], ["e", id_of(message)]], "Hello"))
        same_events(await read(story.on_alice, in_channel(of(9), general)), [message, reply])
        same_events(await read(story.on_alice, of(9).event(message.id())), [reply])
        equal(await count(story.on_alice, in_channel(of(9), general)), 2)

    async with check("HTTP accepts an event, which is then seen live, and nothing without a token"):
        note = alice.event(9, [["h", general]], "by HTTP")
        status, body = await post(alice, "/events", note.as_json())
        equal((status, body.get("event_id"), body.get("accepted")), (200, id_of(note), True))
        await story.bob_live.receives(note, "kind 9 posted by HTTP")
        status, body = await http("/query", {"Content-Type": "application/json"}, json.dumps([{"kinds": [9]}]))
        equal((status, type(body["error"])), (401, str))


def plot(story) -> SimpleNamespace:
    """One artifact, five revisions: created and updated in `general`, moved to `inner`, deleted and restored there."""
    alice, general, inner = story.alice, story.general, story.inner
    d, apollo, gemini = (str(uuid.uuid4()) for _ in range(3))

    def envelope(op, home, artifact=d):
        return [["ar", "1"], Tag.identifier(artifact), ["h", home], ["type", "holdfast.task"], ["op", op]]

    def revision(op, home, title, project, prev=None):
        tags = envelope(op, home) + [["title", title], ["project", project]]
        tags += [["prev", id_of(prev)]] if prev else []
        return alice.event(45010, tags, json.dumps({"version": 1, "title": title}))

    created = revision("create", general, "First", apollo)
    updated = revision("update", general, "Second", gemini, created)
    moved = revision("move", inner, "Third", gemini, updated)
    deleted = alice.event(45010, envelope("delete", inner) + [["prev", id_of(moved)]])
    restored = revision("restore", inner, "Fourth", gemini, deleted)
    return SimpleNamespace(
        d=d, apollo=apollo, gemini=gemini, envelope=envelope, created=created, updated=updated, moved=moved,
        deleted=deleted, restored=restored, stale=revision("update", general, "Late", apollo, created),
        undead=revision("update", inner, "Undead", gemini, deleted))


async def publish(line, event, *seen_by) -> None:
    await accept(line, event)
    for live in seen_by:
        await live.receives(event, "kind 45010 live")


async def revisions(story) -> None:
    # rules: AR-ID-7, AR-ID-12, AR-ID-14, AR-MOD-1, AR-CUR-2, AR-CUR-4
    alice, bob, general = story.alice, story.bob, story.general
    story.plot = it = plot(story)

    async with check("an artifact is created and seen live"):
        await publish(story.on_alice, it.created, story.alice_live, story.bob_live)

    async with check("an accepted revision sent again succeeds"):
        await accept(story.on_alice, it.created)

    async with check("an artifact is updated and seen live"):
        await publish(story.on_alice, it.updated, story.alice_live, story.bob_live)

    async with check("a stale prev is a conflict, by WebSocket and by HTTP"):
        await refuse(story.on_alice, it.stale, "conflict")
        status, body = await post(alice, "/events", it.stale.as_json())
        equal(status, 409)
        assert body["error"].startswith("conflict: "), body

    async with check("a replaced revision sent again still succeeds and changes nothing"):
        await accept(story.on_alice, it.created)
        same_events(await query(alice, {"artifact": "head", "#d": [it.d]}), [it.updated])

    async with check("kind 5 on a revision is refused with a reason"):
        await refuse(story.on_alice, alice.event(5, [Tag.event(it.updated.id()), ["k", "45010"]]), "invalid")
        same_events(await read(story.on_bob, of(45010).ids(ids(it.updated))), [it.updated])

    async with check("REQ returns heads, and older revisions by id"):
        same_events(await read(story.on_alice, in_channel(of(45010), general)), [it.updated])
        same_events(await read(story.on_bob, in_channel(of(45010), general).identifier(it.d)), [it.updated])
        same_events(await read(story.on_bob, of(45010).ids(ids(it.created))), [it.created])
        equal(await count(story.on_bob, in_channel(of(45010), general)), 1)

    async with check("current query and count match whole tags with long names, of the head only"):
        wanted = {"artifact": "current", "#project": [it.gemini, "vostok"]}
        same_events(await query(bob, wanted), [it.updated])
        equal(await query(bob, {"artifact": "current", "#project": [it.apollo]}), [])
        equal(await count_by_http(bob, wanted), 1)
        equal(await count_by_http(bob, {**wanted, "#type": ["other.type"]}), 0)


async def moving_and_deleting(story) -> None:
    # rules: AR-MOVE-5, AR-MOVE-7, AR-ACC-18, AR-DEL-5, AR-DEL-10, AR-HEAD-4
    alice, bob, general, inner, it = story.alice, story.bob, story.general, story.inner, story.plot

    async with check("a move arrives in the destination and leaves a marker in the source"):
        await publish(story.on_alice, it.moved, story.alice_live)
        tags = [["ar", "1"], ["d", it.d], ["h", general], ["reason", "moved"], ["prev", id_of(it.updated)]]
        for live in (story.bob_live, story.alice_live):
            marker = await live.find("kind 45011 live", lambda event: event.kind().as_u16() == 45011)
            equal((marker.author().to_hex(), marker.content(), tags_of(marker)), (story.relay_key, "", tags))

    async with check("the marker is stored in the source, the head in the destination"):
        stored = await read(story.on_bob, in_channel(of(45010, 45011), general))
        equal([event.kind().as_u16() for event in stored], [45011])
        same_events(await read(story.on_alice, in_channel(of(45010), inner)), [it.moved])

    async with check("a reader of the source learns nothing of the destination"):
        equal(await read(story.on_bob, of(45010).ids(ids(it.moved))), [])
        equal(await query(bob, {"artifact": "head", "#d": [it.d]}), [])
        same_events(await query(bob, {"artifact": "history", "#d": [it.d]}), [it.created, it.updated])
        seen = [id_of(event) for event in story.bob_live.events]
        assert id_of(it.moved) not in seen, "the moved revision reached a nonmember"
        answers = []
        for artifact in (it.d, str(uuid.uuid4())):
            tags = it.envelope("update", general, artifact) + [["title", "Guess"], ["prev", id_of(it.moved)]]
            answers.append(await refuse(story.on_bob, bob.event(45010, tags), "conflict"))
        equal(answers[0], answers[1])

    async with check("a delete leaves current, stays the head, and only restore follows"):
        await publish(story.on_alice, it.deleted, story.alice_live)
        equal(await query(alice, {"artifact": "current", "#d": [it.d]}), [])
        equal(await count_by_http(alice, {"artifact": "current", "#d": [it.d]}), 0)
        same_events(await query(alice, {"artifact": "head", "#d": [it.d]}), [it.deleted])
        same_events(await read(story.on_alice, in_channel(of(45010), inner)), [it.deleted])
        await refuse(story.on_alice, it.undead, "invalid")

    async with check("a restore is current again"):
        await publish(story.on_alice, it.restored, story.alice_live)
        for view in ("current", "head"):
            same_events(await query(alice, {"artifact": view, "#d": [it.d]}), [it.restored])

    async with check("history holds every revision"):
        history = await query(alice, {"artifact": "history", "#d": [it.d]})
        same_events(history, [it.created, it.updated, it.moved, it.deleted, it.restored])

    async with check("COUNT of artifacts counts heads"):
        equal(await count(story.on_alice, in_channel(of(45010), inner)), 1)
        equal(await count(story.on_bob, in_channel(of(45010), general)), 0)
