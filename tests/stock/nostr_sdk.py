#!/usr/bin/env python3
"""The stock client nostr-sdk against a running relay: python nostr_sdk.py RELAY_WS_URL workspace|open

What belongs here: the command line and the verdict. What must not: checks, which stand in sdk/. Prints `ok NAME` or
`not ok NAME: why` per check, then `N passed, N failed`; exit code 1 unless every expected check ran and passed.
"""

import asyncio
import sys
from pathlib import Path

# This file is called like the library, so its folder must not be searched for modules; the checks stand in sdk/.
HERE = Path(__file__).resolve().parent
sys.path = [str(HERE / "sdk")] + [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]

import open_profile  # noqa: E402
import support  # noqa: E402
import workspace_profile  # noqa: E402

PROFILES = {
    "workspace": (workspace_profile.run, 29),
    "open": (open_profile.run, 21),
}


async def main(url: str, profile: str) -> bool:
    run, checks_expected = PROFILES[profile]
    await support.aim(url)
    await run()
    return await support.verdict(checks_expected)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].startswith(("ws://", "wss://")) or sys.argv[2] not in PROFILES:
        print("usage: nostr_sdk.py RELAY_WS_URL workspace|open", file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if asyncio.run(main(sys.argv[1], sys.argv[2])) else 1)
