"""Walks all pages of a search. Needs Python 3.9 or newer, and no package.

    python3 client.py http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa'

Prints one record a line. Change APP and the User-Agent to your own.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

APP = "my-app"
HEADERS = {"X-App-Id": APP, "User-Agent": f"{APP}/1.0 (team@example.com)", "Accept": "application/json"}
PAGE = 100
MOST_TRIES = 5


def wait_by_rate_limit(header):
    """The seconds until something is left again; 0 where something is left: "1m";r=0;t=30, "1d";r=9;t=4000"""
    windows = re.findall(r";r=(\d+);t=(\d+)", header or "")
    return max([int(seconds) for remaining, seconds in windows if remaining == "0"], default=0)


def ask(url):
    """Asks until there is an answer. Retry-After says when to ask again."""
    for tries in range(1, MOST_TRIES + 1):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=HEADERS)) as response:
                return json.load(response), response.headers
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            retry_after = error.headers.get("Retry-After")
            message = f"{error.code} {problem['title']}. {problem['remedy']}"
            if retry_after is None or tries == MOST_TRIES:
                raise SystemExit(message)
            print(f"{message} Waiting {retry_after} s.", file=sys.stderr)
            time.sleep(int(retry_after))


def records(base, path):
    """Yields every record of a search."""
    target = urllib.parse.urlsplit(urllib.parse.urljoin(base, path))
    resource = target.path.split("/")[1]
    query = dict(urllib.parse.parse_qsl(target.query))
    # Areas have one page: they take a limit and no offset.
    has_pages = resource != "areas"
    offset = 0
    while True:
        if has_pages:
            query.update(limit=str(PAGE), offset=str(offset))
        page, headers = ask(target._replace(query=urllib.parse.urlencode(query)).geturl())
        yield from page[resource]
        offset += PAGE
        if not has_pages or not page[resource] or offset >= page["totalCount"]:
            return
        # Cached answers are free; the next one may not be. Spread the calls instead of running into a refusal.
        time.sleep(wait_by_rate_limit(headers.get("RateLimit")))


if len(sys.argv) != 3:
    raise SystemExit("Usage: python3 client.py <gateway> <path>")
for record in records(sys.argv[1], sys.argv[2]):
    print(json.dumps(record, ensure_ascii=False))
