// What a client of an ordinary public relay does in the open profile, without AUTH except for protected events.
//
// What belongs here: checks, each with keys of its own, so that none depends on another. What must not: channels and
// artifacts (workspace.mjs), and anything about sockets, waiting or counting, which is in support.mjs.

import assert from 'node:assert/strict'
import { SimplePool } from 'nostr-tools/pool'
import {
  accept, check, connect, count, follow, information, now, offer, person, read, receives, refuse, relayUrl, sameEvents,
  until, within,
} from './support.mjs'

const at = age => now() - age

// The library marks events it verified with a symbol; two of its bundles use two symbols.
const plain = event => JSON.parse(JSON.stringify(event))

export async function openProfile() {
  let relay, watcher

  await check('the information document lists what this profile does', async () => {
    const document = await information()
    for (const nip of [1, 9, 11, 40, 42, 45, 70]) assert.ok(document.supported_nips.includes(nip), `NIP-${nip} missing`)
  })

  await check('connect without AUTH', async () => {
    relay = await connect()
    watcher = await connect()
  })

  await check('kind 1 reaches a second connection live and is stored', async () => {
    const alice = person()
    const live = await follow(watcher, { kinds: [1], authors: [alice.pubkey] })
    assert.deepEqual(live.events, [])
    const text = 'Good morning 🎉 "\\/\n\u2028\u007f'
    const note = await accept(relay, alice.event(1, [['t', 'Mixed'], ['t', 'mixed']], text))
    await receives(live, note, 'kind 1 live')
    const [stored] = await read(watcher, { ids: [note.id] })
    assert.deepEqual(plain(stored), plain(note))
  })

  await check('SimplePool publishes and queries without AUTH', async () => {
    const alice = person()
    const pool = new SimplePool()
    const note = alice.event(1, [], 'through the pool')
    await within('OK', Promise.all(pool.publish([relayUrl()], note)))
    const found = await within('query', pool.querySync([relayUrl()], { kinds: [1], authors: [alice.pubkey] }))
    sameEvents(found, [note])
    pool.destroy()
  })

  await check('a second copy of an event succeeds and is stored once', async () => {
    const alice = person()
    const note = await accept(relay, alice.event(1, [], 'twice'))
    await accept(relay, note)
    sameEvents(await read(relay, { authors: [alice.pubkey] }), [note])
  })

  await check('an event whose id or signature is wrong is refused', async () => {
    const note = person().event(1, [], 'genuine')
    const other = person().event(1, [], 'other')
    await refuse(relay, { ...note, content: 'forged' }, /^invalid: /)
    await refuse(relay, { ...note, sig: other.sig }, /^invalid: /)
    assert.deepEqual(await read(relay, { ids: [note.id] }), [])
  })

  await check('limit keeps the newest, since and until are inclusive', async () => {
    const alice = person()
    const base = now() - 100
    const notes = []
    for (const age of [10, 20, 30]) notes.push(await accept(relay, alice.event(1, [], `at ${age}`, base + age)))
    const [first, second, third] = notes
    const newest = await read(relay, { authors: [alice.pubkey], limit: 2 })
    assert.deepEqual(newest.map(({ id }) => id), [third.id, second.id])
    sameEvents(await read(relay, { authors: [alice.pubkey], since: base + 20, until: base + 20 }), [second])
    sameEvents(await read(relay, { authors: [alice.pubkey], until: base + 20 }), [first, second])
  })

  await check('several filters give the union, each event once', async () => {
    const alice = person()
    const tagged = await accept(relay, alice.event(1, [['t', 'union']], 'one'))
    const untagged = await accept(relay, alice.event(1, [], 'two'))
    const mine = { authors: [alice.pubkey] }
    sameEvents(await read(relay, { ids: [tagged.id] }, mine, { ...mine, '#t': ['union'] }), [tagged, untagged])
  })

  await check('COUNT counts what REQ returns', async () => {
    const alice = person()
    for (const text of ['a', 'b', 'c']) await accept(relay, alice.event(1, [], text))
    await accept(relay, alice.event(1111, [], 'd'))
    const mine = { authors: [alice.pubkey] }
    assert.equal(await count(relay, { ...mine, kinds: [1] }), 3)
    assert.equal(await count(relay, { ...mine, kinds: [1] }, mine), 4)
  })

  await check('an ephemeral event is delivered and not stored', async () => {
    const alice = person()
    const live = await follow(watcher, { kinds: [20100], authors: [alice.pubkey] })
    const event = await accept(relay, alice.event(20100, [], 'blink'))
    await receives(live, event, 'kind 20100 live')
    assert.deepEqual(await read(relay, { kinds: [20100], authors: [alice.pubkey] }), [])
  })

  await replaceable(relay)
  await deletion(relay, watcher)
  await expirationAndProtection(relay, watcher)
}

async function replaceable(relay) {
  await check('a newer kind 0 replaces, an older one never does', async () => {
    const alice = person()
    const [oldest, middle, newest] = [90, 60, 30].map(age => alice.event(0, [], `{"name":"${age}"}`, at(age)))
    await accept(relay, middle)
    await accept(relay, newest)
    await offer(relay, oldest)
    sameEvents(await read(relay, { kinds: [0], authors: [alice.pubkey] }), [newest])
    assert.deepEqual(await read(relay, { ids: [oldest.id, middle.id] }), [])
  })

  for (const [order, name] of [[1, 'after'], [-1, 'before']]) {
    await check(`of two kind 0 in one second the lower id stays when it comes ${name} the other`, async () => {
      const alice = person()
      const second = at(60)
      const pair = ['{"name":"a"}', '{"name":"b"}'].map(content => alice.event(0, [], content, second))
      const [lower, higher] = pair.sort((a, b) => (a.id < b.id ? -1 : 1))
      const sent = order === 1 ? [higher, lower] : [lower, higher]
      await accept(relay, sent[0])
      await offer(relay, sent[1])
      sameEvents(await read(relay, { kinds: [0], authors: [alice.pubkey] }), [lower])
    })
  }

  await check('addressable events are kept per d, and a newer one replaces only its own', async () => {
    const alice = person()
    const bob = person()
    const one = await accept(relay, alice.event(30023, [['d', 'one']], 'first', at(60)))
    const two = await accept(relay, alice.event(30023, [['d', 'two']], 'first', at(60)))
    const foreign = await accept(relay, bob.event(30023, [['d', 'one']], 'of another key', at(60)))
    const newer = await accept(relay, alice.event(30023, [['d', 'one']], 'second', at(30)))
    await offer(relay, alice.event(30023, [['d', 'two']], 'older', at(90)))
    sameEvents(await read(relay, { kinds: [30023], authors: [alice.pubkey] }), [newer, two])
    sameEvents(await read(relay, { kinds: [30023], authors: [alice.pubkey], '#d': ['one'] }), [newer])
    sameEvents(await read(relay, { kinds: [30023], authors: [bob.pubkey] }), [foreign])
    assert.deepEqual(await read(relay, { ids: [one.id] }), [])
  })
}

async function deletion(relay, watcher) {
  await check('kind 5 with e removes the event, stays itself, and the event does not come back', async () => {
    const alice = person()
    const gone = await accept(relay, alice.event(1, [], 'regret', now() - 60))
    const kept = await accept(relay, alice.event(1, [], 'no regret', now() - 60))
    const request = await accept(relay, alice.event(5, [['e', gone.id], ['k', '1']], 'by accident'))
    sameEvents(await read(watcher, { authors: [alice.pubkey] }), [kept, request])
    await offer(relay, gone)
    assert.deepEqual(await read(watcher, { ids: [gone.id] }), [])
    assert.equal(await count(relay, { kinds: [1], authors: [alice.pubkey] }), 1)
  })

  await check('kind 5 of another key removes nothing', async () => {
    const [alice, mallory] = [person(), person()]
    const note = await accept(relay, alice.event(1, [], 'mine', now() - 60))
    const article = await accept(relay, alice.event(30023, [['d', 'mine']], 'mine too', now() - 60))
    await offer(relay, mallory.event(5, [['e', note.id], ['a', `30023:${alice.pubkey}:mine`]]))
    sameEvents(await read(watcher, { authors: [alice.pubkey] }), [note, article])
  })

  await check('kind 5 with a removes the versions up to its time, later ones are accepted', async () => {
    const alice = person()
    // A colon in d must not end the address.
    const d = 'wss://relay.example:7777'
    const version = (content, age) => alice.event(30023, [['d', d]], content, now() - age)
    const [older, stored, newer] = [version('older', 120), version('stored', 90), version('newer', 30)]
    const bystander = await accept(relay, alice.event(30023, [['d', 'wss']], 'bystander', now() - 90))
    await accept(relay, stored)
    await accept(relay, alice.event(5, [['a', `30023:${alice.pubkey}:${d}`], ['k', '30023']], '', now() - 60))
    const filter = { kinds: [30023], authors: [alice.pubkey] }
    sameEvents(await read(watcher, filter), [bystander])
    await offer(relay, older)
    sameEvents(await read(watcher, filter), [bystander])
    await accept(relay, newer)
    sameEvents(await read(watcher, filter), [bystander, newer])
  })
}

async function expirationAndProtection(relay, watcher) {
  await check('an event that expired before it came is not served', async () => {
    const alice = person()
    await offer(relay, alice.event(1, [['expiration', String(now() - 10)]], 'stale', now() - 60))
    assert.deepEqual(await read(watcher, { authors: [alice.pubkey] }), [])
  })

  await check('an event is served until it expires, and not counted after', async () => {
    const alice = person()
    const expiration = now() + 2
    const brief = await accept(relay, alice.event(1, [['expiration', String(expiration)]], 'brief'))
    const lasting = await accept(relay, alice.event(1, [['expiration', String(now() + 3600)]], 'lasting'))
    const early = await read(watcher, { authors: [alice.pubkey] })
    if (now() < expiration) sameEvents(early, [brief, lasting])
    await until('expired event gone', async () =>
      !(await read(watcher, { authors: [alice.pubkey] })).some(({ id }) => id === brief.id))
    assert.ok(now() >= expiration, 'gone before its time')
    sameEvents(await read(watcher, { authors: [alice.pubkey] }), [lasting])
    assert.equal(await count(relay, { authors: [alice.pubkey] }), 1)
  })

  const alice = person()
  const guarded = alice.event(1, [['-']], 'only by my own hand')

  await check('a protected event is refused from a connection without AUTH', async () => {
    await refuse(relay, guarded, /^auth-required: /)
    assert.deepEqual(await read(watcher, { ids: [guarded.id] }), [])
  })

  await check('a protected event is refused from another key', async () => {
    await refuse(await connect(person()), guarded, /^(auth-required|restricted|invalid): /)
    assert.deepEqual(await read(watcher, { ids: [guarded.id] }), [])
  })

  await check('a protected event is accepted from its author after AUTH', async () => {
    const own = await connect()
    await refuse(own, guarded, /^auth-required: /)
    await within('answer to AUTH', own.auth(async template => alice.sign(template)))
    await accept(own, guarded)
    sameEvents(await read(watcher, { ids: [guarded.id] }), [guarded])
  })
}
