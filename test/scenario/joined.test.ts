/** Callers of several apps ask for the same answer while the call is still in the queue. */
import { describe, expect, it } from "vitest";

import { cacheStatus, type Reply } from "../support/ask.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

/** The upstream may be slow: only the wait in the queue passes. */
const SETTINGS = `upstream:
  { connectTimeout: 1h, headerTimeout: 1h, bodyTimeout: 1h, totalTimeout: 1h, retryDelay: 1ms }
apps: [{ id: hog }, { id: quiet }, { id: third }]`;

type Timed = Awaited<ReturnType<typeof startTimed>>;

/** A gateway with a fake clock. */
async function startTimed(env: Readonly<Record<string, string>>) {
  const clock = createFakeClock();
  const sandbox = { now: clock.now };
  const gateway = await startGateway({ settings: SETTINGS, clock, sandbox, env });
  const get = (app: string, path: string, signal?: AbortSignal): Promise<Reply> =>
    gateway.get(path, { headers: { "x-app-id": app }, ...(signal && { signal }) });
  return { gateway, clock, get };
}

/** The greedy app has used its share of the minute (7 of 22), and all but a tenth of what others leave. */
async function startWithHog(): Promise<Timed> {
  const timed = await startTimed({ BUDGET: "22/1m", BUDGET_MAX_WAIT: "5m" });
  // It leaves a tenth.
  expect(await haveHadTurns(timed)).toBe(18);
  return timed;
}

/** @returns how many calls the greedy app got, until it was refused */
async function haveHadTurns({ gateway }: Pick<Timed, "gateway">): Promise<number> {
  const hasty = { "x-request-deadline-ms": "1000" };
  const answered = async (app: string, q: string): Promise<boolean> =>
    (await gateway.get(`/areas?q=${q}`, { headers: { ...hasty, "x-app-id": app } })).status === 200;
  for (const app of ["quiet", "third"]) expect(await answered(app, app)).toBe(true);
  let calls = 0;
  while (await answered("hog", `hog-${calls}`)) calls++;
  return calls;
}

/** Resolves when this number of calls is in the queue. */
async function queued(gateway: TestGateway, calls: number): Promise<void> {
  const length = (): Promise<number> =>
    gateway.metric('gateway_throttle_queue_length{priority="interactive"}');
  await expect.poll(length).toBe(calls);
}

const spentBy = ({ metric }: TestGateway, app: string): Promise<number> =>
  metric(`gateway_budget_spent_total{app="${app}",cause="miss"}`);

describe("a quiet app that asks for an answer that a greedy app waits for", () => {
  it("is answered at once and pays for the call, and the greedy app gets the same answer", async () => {
    const { gateway, clock, get } = await startWithHog();
    const popular = ["a", "b", "c"].map((q) => get("hog", `/areas?q=${q}`));
    await queued(gateway, 3);
    expect(gateway.sandbox.requests()).toHaveLength(20);

    // The last in the hog's queue, and no time passes.
    const reply = await get("quiet", "/areas?q=c");
    expect(reply.status).toBe(200);
    expect(cacheStatus(reply)).toMatchObject({ fwd: "miss", collapsed: true });
    expect((await popular[2])?.body).toEqual(reply.body);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([18, 2]);
    await queued(gateway, 2);

    // The hog is served as before, and once for each question.
    await clock.advance(60_001);
    for (const reply of popular) expect((await reply).status).toBe(200);
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([20, 2]);
    expect(gateway.sandbox.requests()).toHaveLength(23);
    await clock.advance(1);
    expect(await gateway.shows("/usage?from=-1h&by=app")).toMatchObject({
      rows: [
        { app: "hog", sends: 20 },
        { app: "quiet", sends: 2 },
        { app: "third", sends: 1 },
      ],
    });
  });

  it("is answered at once when all callers of the greedy app hang up", async () => {
    const { gateway, get } = await startWithHog();
    const hangUp = new AbortController();
    const gone = Array.from({ length: 20 }, () => get("hog", "/areas?q=a", hangUp.signal));
    const settled = Promise.allSettled(gone);
    await queued(gateway, 1);
    await gateway.admitted();
    const replies = Array.from({ length: 20 }, () => get("quiet", "/areas?q=a"));
    hangUp.abort();
    for (const reply of replies) expect((await reply).status).toBe(200);
    await settled;
    expect([await spentBy(gateway, "hog"), await spentBy(gateway, "quiet")]).toEqual([18, 2]);
  });

  it("also pays for the retry if it is its turn", async () => {
    const { gateway, clock, get } = await startWithHog();
    const asked = get("hog", "/areas?q=a");
    await queued(gateway, 1);
    gateway.sandbox.faults.add({ status: 500, times: 1 });
    const joined = get("quiet", "/areas?q=a");
    const sent = async (): Promise<number> => {
      await clock.advance(2);
      return gateway.sandbox.requests().length;
    };
    await expect.poll(sent).toBe(22);
    expect([(await asked).status, (await joined).status]).toEqual([200, 200]);
    const retries = 'gateway_budget_spent_total{app="quiet",cause="retry"}';
    expect([await spentBy(gateway, "quiet"), await gateway.metric(retries)]).toEqual([2, 1]);
    expect(await spentBy(gateway, "hog")).toBe(18);
  });
});

it("a call that several apps wait for is charged once, to the app whose turn is first: the one with fewer calls", async () => {
  const { gateway, clock, get } = await startTimed({ BUDGET: "1/5s,100/1h" });
  expect((await get("quiet", "/areas?q=before")).status).toBe(200);
  expect(await spentBy(gateway, "quiet")).toBe(1);
  const asked = get("quiet", "/areas?q=a");
  await queued(gateway, 1);
  // Has had nothing yet: in the fair order it comes first.
  const joined = get("hog", "/areas?q=a");
  await gateway.admitted();
  await clock.advance(5_001);
  for (const reply of [asked, joined]) expect((await reply).status).toBe(200);
  expect([await spentBy(gateway, "quiet"), await spentBy(gateway, "hog")]).toEqual([1, 1]);
});
