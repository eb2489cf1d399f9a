/** Request targets that few clients send, on both ports. */
import { expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";

const URLS = "// / ? %25 http%3A%2F%2Fx%3A99999%2Fareas %2F%2F %00 %FF http%3A%2F%2F%5B".split(" ");
const ODD = String.raw`
  / // /// //x //budget //x:99999/budget /? /?? /?&=& /# /; /. /.. /../.. /% /%zz /%2 /%00 /%ff /%2e%2e/ /%2f%2fx /\\x
  /budget/ /budget// /budget;x /BUDGET? /budget?% /budget?pretty=%ff /page/..%2f..%2fpackage.json /page/
  * x ?x budget http:// http:///budget http://x http://x:99999/budget http://x:/budget http://[::1]/budget http://[::1/budget
  http://u:p@x/budget http://%/budget https://x/budget HTTP://X/budget ftp://x/budget http://x?url=// http://x#/budget
  /listings/% /listings// /listings/.. /cache/%2e%2e/x /areas?% /areas?q=%ff /areas?=&&=`
  .trim()
  .split(/\s+/)
  .concat(
    ["/quote", "/cache/entry", "/cache/history"].flatMap((path) => URLS.map((url) => `${path}?url=${url}`)),
  );

it("an odd target gets an answer that is no 500, and nothing is logged as an error", async () => {
  const gateway = await startGateway();
  const ports = [gateway.port, gateway.adminPort];
  for (const port of ports) {
    for (const target of ODD) {
      const head = `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
      const [line] = (await exchangeRaw(port, head)).split("\r\n");
      expect([target, line]).toEqual([target, expect.stringMatching(/^HTTP\/1\.1 [234]\d\d /)]);
    }
  }
  expect(gateway.log.filter((line) => /"level":"(?:error|fatal)"/.test(line))).toEqual([]);
  expect((await gateway.admin("/budget")).status).toBe(200);
});
