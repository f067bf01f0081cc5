#!/bin/sh
# Stands in for the relay where the harness that starts relays is tested: prints its arguments and one variable, counts its
# lives in the data directory, names an address and stays; with --refuse it ends with a reason.
# Called as: serve --listen ADDRESS --profile PROFILE --data-dir DIR ...
listen=$3
lives=$7/lives
echo "listening on ws://127.0.0.1:1" >&2
echo "arguments: $*"
echo "variable: $HOLDFAST_SWEEP_INTERVAL_MS"
case "$*" in
*--refuse*)
    echo 'needs --relay-url' >&2
    exit 2
    ;;
esac
echo x >>"$lives"
echo "life $(wc -l <"$lives")"
[ "$listen" = 127.0.0.1:0 ] && listen=127.0.0.1:7447
echo "  INFO listening on ws://$listen/"
exec tail -f /dev/null
