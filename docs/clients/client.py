"""Prints all records of a search, or a single record, one a line. Needs Python 3.9 or newer, and no package.
    python3 client.py http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa&limit=100'
Change APP and the User-Agent to your own.
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
MOST_TRIES = 5
known = {}  # The last answer of each URL. The gateway answers 304 without a body if it is still current.


def ask(url):
    """Asks until there is an answer. Retry-After says when to ask again."""
    for tries in range(1, MOST_TRIES + 1):
        headers = {**HEADERS, "If-None-Match": known[url][1]["ETag"]} if url in known else HEADERS
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
                answer = json.load(response), response.headers
                if response.headers["ETag"]:
                    known[url] = answer
                return answer
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return known[url]
            text, wait = error.read(), error.headers.get("Retry-After")
            problem = json.loads(text) if text.startswith(b"{") else {}
            if wait is None or tries == MOST_TRIES:
                raise SystemExit(in_words(error.code, problem)) from None
            print(f"{error.code} {problem.get('title')}. Waiting {wait} s.", file=sys.stderr)
            time.sleep(int(wait))


def in_words(status, problem):
    """Log this text: it names every mistake and what to do."""
    text = " ".join([str(status), *(problem.get(name, "") for name in ("title", "detail", "remedy"))])
    for mistake in problem.get("errors", []):
        text += "\n  {parameter}={value}: expected {expected}. ".format(**mistake) + mistake.get("hint", "")
    return text


def records(url):
    """Yields every record. A page names the next one in Link; single records and areas have one page."""
    while url:
        body, headers = ask(url)
        yield from body[urllib.parse.urlsplit(url).path.split("/")[1]]
        link = re.search(r'<([^>]*)>; rel="next"', headers.get("Link", ""))
        url = link and urllib.parse.urljoin(url, link[1])


for record in records(urllib.parse.urljoin(*sys.argv[1:3])):
    print(json.dumps(record, ensure_ascii=False))
