// What an application of the workspace profile does: AUTH, channels, notices, messages, artifacts, HTTP.
//
// What belongs here: checks, in the order of one story; later ones use what earlier ones made. What must not: anything
// about sockets, waiting or counting, which is in support.mjs.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import * as nip29 from 'nostr-tools/nip29'
import { SimplePool } from 'nostr-tools/pool'
import {
  accept, check, closedReason, connect, count, countByHttp, follow, information, offer, person, post, postWith, query,
  read, receives, refuse, relayUrl, sameEvents, until, values, within,
} from './support.mjs'

const HEX_64 = /^[0-9a-f]{64}$/
const FEED = [9, 45010, 45011]

export async function workspaceProfile() {
  const alice = person()
  const bob = person()
  // `general` is open, bob is no member of it; `inner` is private to alice.
  const story = { alice, bob, general: randomUUID(), inner: randomUUID() }
  await connecting(story)
  await channels(story)
  await notices(story)
  await messages(story)
  await revisions(story)
  await movingAndDeleting(story)
}

async function connecting(story) {
  const { alice, bob, general } = story

  await check('the information document names the relay key and the artifact kinds', async () => {
    const document = await information()
    story.relayKey = document.self
    assert.match(document.self ?? '', HEX_64)
    assert.equal(document.limitation.auth_required, true)
    assert.equal(document.artifacts.revision_kind, 45010)
    assert.equal(document.artifacts.removal_kind, 45011)
    for (const nip of [1, 11, 42, 45]) assert.ok(document.supported_nips.includes(nip), `NIP-${nip} missing`)
  })

  await check('before AUTH nothing is read, counted or written', async () => {
    const stranger = await connect()
    assert.match(await closedReason(stranger, { kinds: [9] }), /^auth-required: /)
    await assert.rejects(count(stranger, { kinds: [9] }), /^Error: auth-required: /)
    await refuse(stranger, alice.event(9, [['h', general]], 'too early'), /^auth-required: /)
  })

  await check('AUTH with the challenge sent at connect', async () => {
    story.onAlice = await connect(alice)
    story.alsoAlice = await connect(alice)
    story.onBob = await connect(bob)
  })

  await check('SimplePool authenticates on demand and repeats its write', async () => {
    const carol = person()
    const pool = new SimplePool()
    const profile = carol.event(0, [], '{"name":"carol"}')
    const [answer] = pool.publish([relayUrl()], profile, { onauth: async template => carol.sign(template) })
    assert.equal(typeof await within('OK', answer), 'string')
    const found = await within('get', pool.get([relayUrl()], { kinds: [0], authors: [carol.pubkey] }))
    assert.equal(found?.id, profile.id)
    pool.destroy()
  })
}

async function channels({ alice, bob, general, inner, relayKey, onAlice, onBob }) {
  await check('kind 9007 creates an open channel under the id the client chose', async () => {
    await accept(onAlice, alice.event(9007, [
      ['h', general], ['name', 'General'], ['about', 'Everything'], ['visibility', 'open'],
    ]))
  })

  await check('kind 9007 creates a private channel', async () => {
    await accept(onAlice, alice.event(9007, [['h', inner], ['name', 'Inner'], ['visibility', 'private']]))
  })

  await check('kind 39000 carries the identity tags in their order', async () => {
    // rules: CL-ID-2, CL-ID-3, CL-ID-4, CL-ID-6, CL-ID-10
    const [state, ...others] = await read(onBob, { kinds: [39000], '#d': [general] })
    assert.equal(others.length, 0)
    assert.equal(state.pubkey, relayKey)
    const { id, name, about, isPrivate } = nip29.parseGroupMetadataEvent(state)
    assert.deepEqual({ id, name, about, isPrivate },
      { id: general, name: 'General', about: 'Everything', isPrivate: undefined })
    assert.deepEqual(state.tags.filter(([tag]) => ['t', 'P', 'p'].includes(tag)),
      [['t', 'stream'], ['P', alice.pubkey]])
    assert.match(values(state, 'created_at').join(), /^[1-9][0-9]*$/)
    assert.deepEqual(state.tags.filter(([tag]) => tag === 'public'), [['public']])
  })

  await check('kinds 39001 and 39002 name the creator', async () => {
    // rules: CL-ID-1, CL-ID-2, CL-ID-6
    const [admins] = await read(onAlice, { kinds: [39001], '#d': [general] })
    const [members] = await read(onAlice, { kinds: [39002], '#d': [general], '#p': [alice.pubkey] })
    for (const state of [admins, members]) {
      assert.equal(state.pubkey, relayKey)
      assert.deepEqual(values(state, 't'), ['stream'])
      assert.deepEqual(values(state, 'P'), [alice.pubkey])
    }
    assert.deepEqual(nip29.parseGroupAdminsEvent(admins).map(admin => [admin.pubkey, admin.label]),
      [[alice.pubkey, 'owner']])
    assert.deepEqual(nip29.parseGroupMembersEvent(members).map(({ pubkey }) => pubkey), [alice.pubkey])
  })

  await check('a channel is found by creator and type', async () => {
    // rules: CL-FIND-3
    const found = await read(onAlice, { kinds: [39000], '#P': [alice.pubkey], '#t': ['stream'] })
    assert.deepEqual(found.flatMap(state => values(state, 'd')).sort(), [general, inner].sort())
    assert.deepEqual(await read(onAlice, { kinds: [39000], '#P': [alice.pubkey], '#t': ['forum'] }), [])
    assert.deepEqual(await read(onAlice, { kinds: [39000], '#P': [bob.pubkey], '#t': ['stream'] }), [])
  })

  await check('a private channel answers a nonmember as an unknown one', async () => {
    const answers = []
    for (const channel of [inner, randomUUID()]) {
      answers.push([
        await closedReason(onBob, { kinds: [9], '#h': [channel] }),
        await refuse(onBob, bob.event(9, [['h', channel]], 'knock'), /^restricted: /),
      ])
    }
    assert.match(answers[0][0], /^restricted: /)
    assert.deepEqual(answers[0], answers[1])
    assert.deepEqual(await read(onBob, { kinds: [39000], '#d': [inner] }), [])
  })
}

async function notices({ alice, bob, general, inner, relayKey, onAlice, onBob }) {
  const mine = { kinds: [44100], '#p': [alice.pubkey] }
  let notice

  await check('kind 44100 tells the creator of each channel, with p, h and t', async () => {
    // rules: CL-NTC-1, CL-NTC-4
    const found = await read(onAlice, mine)
    assert.deepEqual(found.map(event => values(event, 'h')[0]).sort(), [general, inner].sort())
    notice = found.find(event => values(event, 'h')[0] === general)
    assert.equal(notice.pubkey, relayKey)
    assert.deepEqual(notice.tags, [['p', alice.pubkey], ['h', general], ['t', 'stream']])
    const { type, channel_id, actor } = JSON.parse(notice.content)
    assert.deepEqual({ type, channel_id, actor }, { type: 'member_added', channel_id: general, actor: alice.pubkey })
  })

  await check('kind 44100 of another key is closed as restricted, with and without ids', async () => {
    // rules: CL-NTC-17, CL-NTC-18
    assert.match(await closedReason(onBob, mine), /^restricted: /)
    assert.match(await closedReason(onBob, { ...mine, ids: [notice.id] }), /^restricted: /)
    await assert.rejects(count(onBob, mine), /^Error: restricted: /)
    assert.deepEqual(await read(onBob, { kinds: [44100], '#p': [bob.pubkey] }), [])
  })
}

async function messages(story) {
  const { alice, bob, general, inner, onAlice, alsoAlice, onBob } = story
  const message = alice.event(9, [['h', general]], 'Good morning 🎉 "\\\n')

  await check('a second connection receives kind 9 live', async () => {
    story.bobLive = await follow(onBob, { kinds: FEED, '#h': [general] })
    story.aliceLive = await follow(alsoAlice, { kinds: FEED, '#h': [general, inner] })
    await accept(onAlice, message)
    await receives(story.bobLive, message, 'kind 9 to bob')
    await receives(story.aliceLive, message, 'kind 9 to the second connection of alice')
  })

  await check('kind 9 is stored, found and counted', async () => {
    const reply = await accept(onBob, bob.event(9, [['h', general]], 'Hello'))
    sameEvents(await read(onAlice, { kinds: [9], '#h': [general] }), [message, reply])
    assert.equal(await count(onAlice, { kinds: [9], '#h': [general] }), 2)
  })

  await check('HTTP accepts an event, which is then seen live, and nothing without a token', async () => {
    const note = alice.event(9, [['h', general]], 'by HTTP')
    const answer = await post(alice, '/events', note)
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    assert.equal(answer.body.event_id, note.id)
    assert.equal(answer.body.accepted, true)
    await receives(story.bobLive, note, 'kind 9 posted by HTTP')
    const bare = await postWith({}, '/query', [{ kinds: [9], '#h': [general] }])
    assert.equal(bare.status, 401)
    assert.equal(typeof bare.body.error, 'string')
  })
}

// One artifact, five revisions: created and updated in `general`, moved to `inner`, deleted and restored there.
function plot({ alice, general, inner }) {
  const d = randomUUID()
  const [apollo, gemini] = [randomUUID(), randomUUID()]
  const envelope = (op, home, id = d) => [['ar', '1'], ['d', id], ['h', home], ['type', 'holdfast.task'], ['op', op]]
  const revision = (op, home, title, project, prev) => {
    const tags = [...envelope(op, home), ['title', title], ['project', project], ...(prev ? [['prev', prev.id]] : [])]
    return alice.event(45010, tags, JSON.stringify({ version: 1, title }))
  }
  const created = revision('create', general, 'First', apollo)
  const updated = revision('update', general, 'Second', gemini, created)
  const moved = revision('move', inner, 'Third', gemini, updated)
  const deleted = alice.event(45010, [...envelope('delete', inner), ['prev', moved.id]])
  const restored = revision('restore', inner, 'Fourth', gemini, deleted)
  const stale = revision('update', general, 'Late', apollo, created)
  const undead = revision('update', inner, 'Undead', gemini, deleted)
  return { d, apollo, gemini, envelope, created, updated, moved, deleted, restored, stale, undead }
}

async function publish(relay, event, ...seenBy) {
  await accept(relay, event)
  for (const live of seenBy) await receives(live, event, `kind ${event.kind} live`)
}

async function revisions(story) {
  const { alice, bob, general, onAlice, onBob, aliceLive, bobLive } = story
  story.plot = plot(story)
  const { d, apollo, gemini, created, updated, stale } = story.plot

  await check('an artifact is created and seen live', () => publish(onAlice, created, aliceLive, bobLive))

  await check('an accepted revision sent again succeeds', () => accept(onAlice, created))

  await check('an artifact is updated and seen live', () => publish(onAlice, updated, aliceLive, bobLive))

  await check('a stale prev is a conflict, by WebSocket and by HTTP', async () => {
    // rules: AR-ID-7, AR-ID-14
    await refuse(onAlice, stale, /^conflict: /)
    const answer = await post(alice, '/events', stale)
    assert.equal(answer.status, 409)
    assert.match(answer.body.error, /^conflict: /)
  })

  await check('a replaced revision sent again still succeeds and changes nothing', async () => {
    // rules: AR-ID-11, AR-ID-12
    await accept(onAlice, created)
    sameEvents(await query(alice, { artifact: 'head', '#d': [d] }), [updated])
  })

  await check('kind 5 on a revision is refused with a reason', async () => {
    // rules: AR-MOD-1
    await refuse(onAlice, alice.event(5, [['e', updated.id], ['k', '45010']]), /^invalid: /)
    sameEvents(await read(onBob, { ids: [updated.id] }), [updated])
  })

  await check('REQ returns heads, and older revisions by id', async () => {
    sameEvents(await read(onAlice, { kinds: [45010], '#h': [general] }), [updated])
    sameEvents(await read(onBob, { kinds: [45010], '#h': [general], '#d': [d] }), [updated])
    sameEvents(await read(onBob, { ids: [created.id] }), [created])
    assert.equal(await count(onBob, { kinds: [45010], '#h': [general] }), 1)
  })

  await check('current query and count match whole tags with long names, of the head only', async () => {
    // rules: AR-CUR-2, AR-CUR-4, AR-CUR-16
    sameEvents(await query(bob, { artifact: 'current', '#project': [gemini, 'vostok'] }), [updated])
    assert.deepEqual(await query(bob, { artifact: 'current', '#project': [apollo] }), [])
    assert.equal(await countByHttp(bob, { artifact: 'current', '#project': [gemini] }), 1)
    assert.equal(await countByHttp(bob, { artifact: 'current', '#project': [gemini], '#type': ['other.type'] }), 0)
  })
}

async function movingAndDeleting(story) {
  const { alice, bob, general, inner, relayKey, onAlice, onBob, aliceLive, bobLive } = story
  const { d, envelope, created, updated, moved, deleted, restored, undead } = story.plot

  await check('a move arrives in the destination and leaves a marker in the source', async () => {
    // rules: AR-MOVE-1, AR-MOVE-5, AR-MOVE-6
    await publish(onAlice, moved, aliceLive)
    for (const live of [bobLive, aliceLive]) {
      const marker = await until('kind 45011 live', () => live.events.find(({ kind }) => kind === 45011))
      assert.equal(marker.pubkey, relayKey)
      assert.equal(marker.content, '')
      assert.deepEqual(marker.tags,
        [['ar', '1'], ['d', d], ['h', general], ['reason', 'moved'], ['prev', updated.id]])
    }
  })

  await check('the marker is stored in the source, the head in the destination', async () => {
    // rules: AR-MOVE-7
    const stored = await read(onBob, { kinds: [45010, 45011], '#h': [general] })
    assert.deepEqual(stored.map(({ kind }) => kind), [45011])
    sameEvents(await read(onAlice, { kinds: [45010], '#h': [inner] }), [moved])
  })

  await check('a reader of the source learns nothing of the destination', async () => {
    // rules: AR-ACC-1, AR-ACC-2, AR-ACC-18
    assert.deepEqual(await read(onBob, { ids: [moved.id] }), [])
    assert.deepEqual(await query(bob, { artifact: 'head', '#d': [d] }), [])
    sameEvents(await query(bob, { artifact: 'history', '#d': [d] }), [created, updated])
    assert.ok(!bobLive.events.some(({ id }) => id === moved.id), 'the moved revision reached a nonmember')
    const guess = id => bob.event(45010, [...envelope('update', general, id), ['title', 'Guess'], ['prev', moved.id]])
    const known = await offer(onBob, guess(d))
    assert.match(known.reason, /^conflict: /)
    assert.deepEqual(known, await offer(onBob, guess(randomUUID())))
  })

  await check('a delete leaves current, stays the head, and only restore follows', async () => {
    // rules: AR-CUR-3, AR-DEL-5, AR-DEL-6, AR-HEAD-4
    await publish(onAlice, deleted, aliceLive)
    assert.deepEqual(await query(alice, { artifact: 'current', '#d': [d] }), [])
    assert.equal(await countByHttp(alice, { artifact: 'current', '#d': [d] }), 0)
    sameEvents(await query(alice, { artifact: 'head', '#d': [d] }), [deleted])
    sameEvents(await read(onAlice, { kinds: [45010], '#h': [inner] }), [deleted])
    await refuse(onAlice, undead, /^invalid: /)
  })

  await check('a restore is current again', async () => {
    // rules: AR-DEL-10
    await publish(onAlice, restored, aliceLive)
    sameEvents(await query(alice, { artifact: 'current', '#d': [d] }), [restored])
    sameEvents(await query(alice, { artifact: 'head', '#d': [d] }), [restored])
  })

  await check('history holds every revision', async () => {
    // rules: AR-ID-3, AR-CUR-5
    sameEvents(await query(alice, { artifact: 'history', '#d': [d] }), [created, updated, moved, deleted, restored])
  })

  await check('COUNT of artifacts counts heads', async () => {
    assert.equal(await count(onAlice, { kinds: [45010], '#h': [inner] }), 1)
    assert.equal(await count(onBob, { kinds: [45010], '#h': [general] }), 0)
  })
}
