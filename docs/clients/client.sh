#!/bin/sh
# Walks all pages of a search. Needs curl, and no other package.
#
#   sh client.sh http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa'
#
# The path has a question mark. Prints one page a line. Change APP and the User-Agent to your own.
set -eu
[ $# -eq 2 ] || { echo "Usage: sh client.sh <gateway> <path>" >&2; exit 2; }
APP=my-app
PAGE=100
body=$(mktemp) head=$(mktemp)
trap 'rm -f "$body" "$head"' EXIT

header() { tr -d '\r' <"$head" | sed -n "s/^$1: //Ip" | tail -n 1; }

# Asks until there is an answer. Retry-After says when to ask again.
ask() {
  tries=1
  while :; do
    status=$(curl -sS -o "$body" -D "$head" -w '%{http_code}' -H "X-App-Id: $APP" -A "$APP/1.0 (team@example.com)" "$1")
    [ "$status" = 200 ] && return
    after=$(header Retry-After)
    if [ -z "$after" ] || [ "$tries" -eq 5 ]; then cat "$body" >&2; exit 1; fi
    echo "$status, waiting $after s" >&2
    sleep "$after"
    tries=$((tries + 1))
  done
}

case $2 in
  # Areas have one page: they take a limit and no offset.
  /areas*) ask "$1$2"; cat "$body"; echo; exit 0 ;;
esac
offset=0
while :; do
  ask "$1$2&limit=$PAGE&offset=$offset"
  cat "$body"
  echo
  total=$(sed -n 's/.*"totalCount":\([0-9]*\).*/\1/p' "$body")
  offset=$((offset + PAGE))
  [ "$offset" -ge "${total:-0}" ] && exit 0
  # Cached answers are free; the next one may not be. Wait where a window has nothing left: "1m";r=0;t=30
  wait=$(header RateLimit | tr ',' '\n' | sed -n 's/.*;r=0;t=\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
  sleep "${wait:-0}"
done
