"""What a client of an ordinary public relay does in the open profile, without AUTH except for protected events.

What belongs here: checks, each with keys of its own, so that none depends on another. What must not: channels and
artifacts (workspace_profile.py), and anything about sockets, waiting or counting, which is in support.py.
"""

import asyncio
import json

from nostr_sdk import (
    Coordinate, Event, Filter, Kind, Metadata, MetadataRecord, RelayInformationDocument, ReqTarget, Tag, Timestamp,
)

from support import (
    DEADLINE, Person, accept, check, connect, count, equal, follow, id_of, information, now, of, offer, read, refuse,
    same_events,
)

POLL_INTERVAL_S = 0.02


async def run() -> None:
    async with check("the information document is read by the library and lists what this profile does"):
        parsed = RelayInformationDocument.from_json(json.dumps(await information()))
        missing = {1, 9, 11, 40, 42, 45, 70} - set(parsed.supported_nips())
        assert not missing, f"NIPs missing: {missing}"

    async with check("connect without AUTH"):
        line = await connect()
        watcher = await connect()

    await notes(line, watcher)
    await replaceable(line)
    await deletion(line, watcher)
    await expiration(line, watcher)
    await protection(line, watcher)


async def notes(line, watcher) -> None:
    async with check("kind 1 reaches a second connection live, is stored and fetched"):
        alice = Person()
        live = await follow(watcher, of(1).author(alice.key))
        equal(live.events, [])
        text = 'Good morning 🎉 "\\/\n\u2028\u007f'
        note = await accept(line, alice.event(1, [["t", "Mixed"], ["t", "mixed"]], text))
        await live.receives(note, "kind 1 live")
        [stored] = await watcher.client.fetch_events(ReqTarget.auto([of(1).author(alice.key)]), DEADLINE)
        equal(json.loads(stored.as_json()), json.loads(note.as_json()))

    async with check("a second copy of an event succeeds and is stored once"):
        alice = Person()
        note = await accept(line, alice.event(1, [], "twice"))
        await accept(line, note)
        same_events(await read(line, Filter().author(alice.key)), [note])

    async with check("an event whose id or signature is wrong is refused"):
        note = Person().event(1, [], "genuine")
        genuine = json.loads(note.as_json())
        for change in ({"content": "forged"}, {"sig": Person().event(1).signature()}):
            await refuse(line, Event.from_json(json.dumps({**genuine, **change})), "invalid")
        equal(await read(line, Filter().id(note.id())), [])

    async with check("limit keeps the newest, since and until are inclusive"):
        alice = Person()
        base = now() - 100
        first, second, third = [await accept(line, alice.event(1, [], f"{age}", base + age)) for age in (10, 20, 30)]
        mine = Filter().author(alice.key)
        newest = await read(line, mine.limit(2))
        equal([id_of(event) for event in newest], [id_of(third), id_of(second)])
        middle = Timestamp.from_secs(base + 20)
        same_events(await read(line, mine.since(middle).until(middle)), [second])
        same_events(await read(line, mine.until(middle)), [first, second])

    async with check("several filters give the union, each event once"):
        alice = Person()
        tagged = await accept(line, alice.event(1, [Tag.hashtag("union")], "one"))
        plain = await accept(line, alice.event(1, [], "two"))
        mine = Filter().author(alice.key)
        same_events(await read(line, Filter().id(tagged.id()), mine, mine.hashtag("union")), [tagged, plain])

    async with check("COUNT counts what REQ returns"):
        alice = Person()
        for kind in (1, 1, 1, 1111):
            await accept(line, alice.event(kind, [["nonce", str(kind)]], Person().pubkey))
        equal(await count(line, of(1).author(alice.key)), 3)
        equal(await count(line, Filter().author(alice.key)), 4)

    async with check("an ephemeral event is delivered and not stored"):
        alice = Person()
        mine = of(20100).author(alice.key)
        live = await follow(watcher, mine)
        await live.receives(await accept(line, alice.event(20100, [], "blink")), "kind 20100 live")
        equal(await read(line, mine), [])


async def replaceable(line) -> None:
    def profile(alice, name, created_at):
        builder = Metadata.from_record(MetadataRecord(name=name)).into_event_builder()
        return builder.custom_created_at(Timestamp.from_secs(created_at)).finalize(alice.keys)

    async with check("a newer kind 0 replaces, an older one never does"):
        alice = Person()
        oldest, middle, newest = [profile(alice, f"{age} s ago", now() - age) for age in (90, 60, 30)]
        await accept(line, middle)
        await accept(line, newest)
        await offer(line, oldest)
        same_events(await read(line, of(0).author(alice.key)), [newest])
        equal(await read(line, Filter().ids([oldest.id(), middle.id()])), [])

    for lower_comes in ("after", "before"):
        async with check(f"of two kind 0 in one second the lower id stays when it comes {lower_comes} the other"):
            alice = Person()
            second = now() - 60
            lower, higher = sorted([profile(alice, name, second) for name in "ab"], key=id_of)
            sent = [higher, lower] if lower_comes == "after" else [lower, higher]
            await accept(line, sent[0])
            await offer(line, sent[1])
            same_events(await read(line, of(0).author(alice.key)), [lower])

    async with check("addressable events are kept per d, and a newer one replaces only its own"):
        alice, bob = Person(), Person()

        def article(author, d, content, age):
            return author.event(30023, [Tag.identifier(d)], content, now() - age)

        one = await accept(line, article(alice, "one", "first", 60))
        two = await accept(line, article(alice, "two", "first", 60))
        foreign = await accept(line, article(bob, "one", "of another key", 60))
        newer = await accept(line, article(alice, "one", "second", 30))
        await offer(line, article(alice, "two", "older", 90))
        same_events(await read(line, of(30023).author(alice.key)), [newer, two])
        same_events(await read(line, of(30023).author(alice.key).identifier("one")), [newer])
        same_events(await read(line, of(30023).author(bob.key)), [foreign])
        equal(await read(line, Filter().id(one.id())), [])


async def deletion(line, watcher) -> None:
    async with check("kind 5 with e removes the event, stays itself, and the event does not come back"):
        alice = Person()
        gone = await accept(line, alice.event(1, [], "regret", now() - 60))
        kept = await accept(line, alice.event(1, [], "no regret", now() - 60))
        request = await accept(line, alice.event(5, [Tag.event(gone.id()), ["k", "1"]], "by accident"))
        same_events(await read(watcher, Filter().author(alice.key)), [kept, request])
        await offer(line, gone)
        equal(await read(watcher, Filter().id(gone.id())), [])
        equal(await count(line, of(1).author(alice.key)), 1)

    async with check("kind 5 of another key removes nothing"):
        alice, mallory = Person(), Person()
        note = await accept(line, alice.event(1, [], "mine", now() - 60))
        article = await accept(line, alice.event(30023, [Tag.identifier("mine")], "mine too", now() - 60))
        address = Tag.coordinate(Coordinate(Kind(30023), alice.key, "mine"))
        await offer(line, mallory.event(5, [Tag.event(note.id()), address]))
        same_events(await read(watcher, Filter().author(alice.key)), [note, article])

    async with check("kind 5 with a removes the versions up to its time, later ones are accepted"):
        alice = Person()
        # A colon in d must not end the address.
        d = "wss://relay.example:7777"

        def version(content, age):
            return alice.event(30023, [Tag.identifier(d)], content, now() - age)

        older, stored, newer = version("older", 120), version("stored", 90), version("newer", 30)
        bystander = await accept(line, alice.event(30023, [Tag.identifier("wss")], "bystander", now() - 90))
        await accept(line, stored)
        address = Tag.coordinate(Coordinate(Kind(30023), alice.key, d))
        await accept(line, alice.event(5, [address, ["k", "30023"]], "", now() - 60))
        mine = of(30023).author(alice.key)
        same_events(await read(watcher, mine), [bystander])
        await offer(line, older)
        same_events(await read(watcher, mine), [bystander])
        await accept(line, newer)
        same_events(await read(watcher, mine), [bystander, newer])


async def expiration(line, watcher) -> None:
    # The library hides expired events from its user whatever the relay sends, so a COUNT shows what the relay serves.
    async with check("an event that expired before it came is not served"):
        alice = Person()
        await offer(line, alice.event(1, [Tag.expiration(Timestamp.from_secs(now() - 10))], "stale", now() - 60))
        equal(await read(watcher, Filter().author(alice.key)), [])
        equal(await count(line, Filter().author(alice.key)), 0)

    async with check("an event is served until it expires, and not counted after"):
        alice = Person()
        mine = Filter().author(alice.key)
        end = now() + 2
        brief = await accept(line, alice.event(1, [Tag.expiration(Timestamp.from_secs(end))], "brief"))
        lasting = await accept(line, alice.event(1, [Tag.expiration(Timestamp.from_secs(now() + 3600))], "lasting"))
        early = await read(watcher, mine)
        if now() < end:
            same_events(early, [brief, lasting])
        async with asyncio.timeout(DEADLINE.total_seconds()):
            while await count(line, mine) != 1:
                await asyncio.sleep(POLL_INTERVAL_S)
        assert now() >= end, "gone before its time"
        same_events(await read(watcher, mine), [lasting])


async def protection(line, watcher) -> None:
    alice = Person()
    guarded = alice.event(1, [Tag.protected()], "only by my own hand")
    wanted = Filter().id(guarded.id())

    async with check("a protected event is refused from a connection without AUTH"):
        await refuse(line, guarded, "auth-required")
        equal(await read(watcher, wanted), [])

    async with check("a protected event is refused from another key"):
        await refuse(await connect(Person()), guarded, "auth-required|restricted|invalid")
        equal(await read(watcher, wanted), [])

    async with check("a protected event is accepted from its author after AUTH"):
        await accept(await connect(alice), guarded)
        same_events(await read(watcher, wanted), [guarded])
