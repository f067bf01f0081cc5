// The runner of the checks, and the few verbs they are written in: connect, accept, refuse, read, follow, post.
//
// What belongs here: waiting with a deadline, counting, and thin wrappings of the API of nostr-tools. What must not: a
// check.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import * as nip11 from 'nostr-tools/nip11'
import * as nip98 from 'nostr-tools/nip98'
import { useWebSocketImplementation as useWebSocketInPool } from 'nostr-tools/pool'
import { finalizeEvent, generateSecretKey, getPublicKey, verifyEvent } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation as useWebSocketInRelay } from 'nostr-tools/relay'
import WebSocket from 'ws'

// Every wait ends here; the library's own EOSE timer, which reports an EOSE nobody sent, is set beyond it.
const DEADLINE_MS = 10_000
const LIBRARY_EOSE_TIMEOUT_MS = 10 * DEADLINE_MS
const POLL_INTERVAL_MS = 20

// Node 20 has no WebSocket of its own, and each bundle of the library keeps its own reference.
useWebSocketInRelay(WebSocket)
useWebSocketInPool(WebSocket)

let url
let passed = 0
let failed = 0
const connections = []

/** Names the relay under test; comes before everything else. */
export function aim(relayUrl) {
  url = relayUrl
}

export const relayUrl = () => url

// --- the runner -----------------------------------------------------------------------------------------------------

const oneLine = error => String(error?.message ?? error).replace(/\s+/g, ' ')

/** Runs one check and prints its line; a failure never ends the run. */
export async function check(name, body) {
  try {
    await body()
    passed += 1
    console.log(`ok ${name}`)
  } catch (error) {
    failed += 1
    console.log(`not ok ${name}: ${oneLine(error)}`)
  }
}

/** Closes everything and prints the last line; true only if every expected check ran and passed. */
export function verdict(checksExpected) {
  for (const relay of connections) relay.close()
  const ran = passed + failed
  if (ran !== checksExpected) console.log(`${ran} checks ran where ${checksExpected} were expected`)
  console.log(`${passed} passed, ${failed} failed`)
  return failed === 0 && ran === checksExpected
}

// The library answers an AUTH challenge on its own and throws where nobody can catch when the answer is refused.
process.on('unhandledRejection', error => {
  failed += 1
  console.log(`not ok unhandled failure: ${oneLine(error)}`)
})

/** The promise, or an error when nothing came of it in time. */
export async function within(what, promise) {
  let timer
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${DEADLINE_MS} ms`)), DEADLINE_MS)
  })
  try {
    return await Promise.race([promise, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/** The first truthy answer of the probe, or an error when there was none in time. */
export async function until(what, probe) {
  const end = Date.now() + DEADLINE_MS
  for (;;) {
    const found = await probe()
    if (found) return found
    if (Date.now() > end) throw new Error(`${what}: not within ${DEADLINE_MS} ms`)
    await new Promise(resolve => setTimeout(resolve, POLL_INTERVAL_MS))
  }
}

// --- keys, connections, reads and writes ----------------------------------------------------------------------------

/** Unix seconds. */
export const now = () => Math.floor(Date.now() / 1000)

/** A fresh key and what it signs. */
export function person() {
  const secret = generateSecretKey()
  return {
    pubkey: getPublicKey(secret),
    sign: template => finalizeEvent(template, secret),
    event: (kind, tags = [], content = '', created_at = now()) =>
      finalizeEvent({ kind, tags, content, created_at }, secret),
  }
}

/** A connection, authenticated when a key is given. */
export async function connect(key) {
  const relay = new Relay(url)
  connections.push(relay)
  relay.onnotice = () => {}
  if (!key) {
    await within('connect', relay.connect())
    return relay
  }
  const challenged = new Promise(resolve => {
    relay.onauth = async template => {
      resolve()
      return key.sign(template)
    }
  })
  await within('connect', relay.connect())
  await within('AUTH challenge', challenged)
  // The library has sent its answer by then; this is the promise of that same answer.
  await within('answer to AUTH', relay.auth(relay.onauth))
  return relay
}

export const information = () => within('NIP-11', nip11.fetchRelayInformation(url))

export const count = (relay, ...filters) => within('COUNT', relay.count(filters, {}))

/** The answer to an EVENT. A refusal has a one-word prefix; the library's own failures (timeout, lost link) do not. */
export async function offer(relay, event) {
  try {
    return { accepted: true, reason: await within('OK', relay.publish(event)) }
  } catch (error) {
    if (!/^[a-z-]+: ./.test(error.message)) throw error
    return { accepted: false, reason: error.message }
  }
}

export async function accept(relay, event) {
  const { accepted, reason } = await offer(relay, event)
  assert.ok(accepted, `kind ${event.kind} was refused: ${reason}`)
  return event
}

export async function refuse(relay, event, prefix) {
  const { accepted, reason } = await offer(relay, event)
  assert.ok(!accepted, `kind ${event.kind} was accepted`)
  assert.match(reason, prefix)
  return reason
}

function subscribe(relay, filters) {
  const live = { events: [], invalid: [], eose: false, ended: undefined }
  live.subscription = relay.subscribe(filters, {
    onevent: event => live.events.push(event),
    oninvalidevent: event => live.invalid.push(event),
    oneose: () => { live.eose = true },
    onclose: reason => { live.ended = reason },
    eoseTimeout: LIBRARY_EOSE_TIMEOUT_MS,
  })
  return live
}

function assertSound(live, what) {
  assert.equal(live.ended, undefined, `${what}: closed: ${live.ended}`)
  assert.deepEqual(live.invalid, [], `${what}: events outside the filter or with a bad signature`)
}

/** A subscription past its EOSE, which goes on collecting in `events`. */
export async function follow(relay, ...filters) {
  const live = subscribe(relay, filters)
  await until('EOSE', () => live.eose || live.ended !== undefined)
  assertSound(live, 'subscription')
  return live
}

/** The stored events, in the order they came. */
export async function read(relay, ...filters) {
  const live = await follow(relay, ...filters)
  live.subscription.close()
  return live.events
}

/** The reason of the CLOSED that must come where an EOSE would. */
export async function closedReason(relay, ...filters) {
  const live = subscribe(relay, filters)
  await until('CLOSED', () => live.eose || live.ended !== undefined)
  assert.ok(!live.eose, 'EOSE where a CLOSED was due')
  return live.ended
}

/** Waits until the subscription got the event; whatever it got so far must have come once. */
export async function receives(live, event, what) {
  await until(what, () => {
    assertSound(live, what)
    return live.events.some(({ id }) => id === event.id)
  })
  assert.equal(new Set(ids(live.events)).size, live.events.length, `${what}: an event was sent more than once`)
}

/** A signed HTTP request (NIP-98) of one of the three paths. */
export async function post(key, path, body) {
  const address = new URL(path, url.replace(/^ws/, 'http')).href
  // Two equal requests in one second would be one NIP-98 event, hence a replay: each gets a tag of its own.
  const sign = template => key.sign({ ...template, tags: [...template.tags, ['nonce', randomUUID()]] })
  return postWith({ authorization: await nip98.getToken(address, 'post', sign, true, body) }, path, body)
}

export async function postWith(headers, path, body) {
  const answer = await fetch(new URL(path, url.replace(/^ws/, 'http')), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(DEADLINE_MS),
  })
  return { status: answer.status, body: await answer.json() }
}

export async function query(key, filter) {
  const answer = await post(key, '/query', [filter])
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  for (const event of answer.body) assert.ok(verifyEvent(event), 'an event with a bad signature')
  return answer.body
}

export async function countByHttp(key, filter) {
  const answer = await post(key, '/count', [filter])
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return answer.body.count
}

// --- comparing ------------------------------------------------------------------------------------------------------

const ids = events => events.map(({ id }) => id).sort()

/** The same events, in any order, each once. */
export function sameEvents(found, wanted) {
  assert.deepEqual(ids(found), ids(wanted))
}

/** First values of all tags of one name, in order. */
export const values = (event, name) => event.tags.filter(tag => tag[0] === name).map(tag => tag[1])
