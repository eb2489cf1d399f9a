#!/bin/sh
# Prints all pages of a search, or a single record, one a line. Needs curl 7.70 or newer.
#
#   sh client.sh http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa&limit=100'
#
# Set CACHE to a folder that keeps the answers, so that the gateway can answer 304. Change APP and the User-Agent to your own.
set -eu
APP=my-app
[ -n "${CACHE:-}" ] || { CACHE=$(mktemp -d) && trap 'rm -rf "$CACHE"' EXIT; }

# Asks until there is an answer, and prints it. Retry-After says when to ask again.
ask() {
  file=$CACHE/$(printf %s "$1" | cksum | tr ' ' -)
  tries=1
  while :; do
    touch "$file.etag"
    status=$(curl -sS -o "$file.new" -D "$file.head.new" -w '%{http_code}' -A "$APP/1.0 (team@example.com)" \
      -H "X-App-Id: $APP" -H "If-None-Match: $(cat "$file.etag")" "$1")
    if [ "$status" = 200 ]; then
      mv "$file.new" "$file"
      mv "$file.head.new" "$file.head"
      header ETag >"$file.etag"
    fi
    if [ "$status" = 200 ] || [ "$status" = 304 ]; then
      cat "$file"
      echo
      return
    fi
    cp "$file.head.new" "$file.head"
    after=$(header Retry-After)
    if [ -z "$after" ] || [ "$tries" -eq 5 ]; then
      # Log this text: its "errors" name every mistake.
      cat "$file.new" >&2
      exit 1
    fi
    echo "$status, waiting $after s" >&2
    sleep "$after"
    tries=$((tries + 1))
  done
}

header() { tr -d '\r' <"$file.head" | sed -n "s/^$1: //Ip"; }

# A page names the next one in Link; single records and areas have one page.
url=$1$2
while [ -n "$url" ]; do
  ask "$url"
  next=$(header Link | sed -n 's/.*<\([^>]*\)>; rel="next".*/\1/p')
  url=${next:+${url%%\?*}$next}
done
