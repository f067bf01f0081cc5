#!/usr/bin/env node
// The stock client nostr-tools against a running relay: node nostr_tools.mjs RELAY_WS_URL workspace|open
//
// What belongs here: the command line and the verdict. What must not: checks, which stand in tools/. Prints `ok NAME` or
// `not ok NAME: why` per check, then `N passed, N failed`; exit code 1 unless every expected check ran and passed.

import { openProfile } from './tools/open.mjs'
import { aim, verdict } from './tools/support.mjs'
import { workspaceProfile } from './tools/workspace.mjs'

const PROFILES = {
  workspace: { run: workspaceProfile, checksExpected: 30 },
  open: { run: openProfile, checksExpected: 22 },
}

const [url, profile] = process.argv.slice(2)
if (!/^wss?:\/\//.test(url ?? '') || !Object.hasOwn(PROFILES, profile)) {
  console.error('usage: nostr_tools.mjs RELAY_WS_URL workspace|open')
  process.exit(2)
}
aim(url)
await PROFILES[profile].run()
// An explicit exit: the library's EOSE timers would keep the process alive.
process.exit(verdict(PROFILES[profile].checksExpected) ? 0 : 1)
