// Checks that the gateway is ready, and that it answers an unknown path without calling the property API.
const { CALLERS, ADMIN } = process.env;
for (const [url, expected] of [
  [`${ADMIN}/readyz`, 200],
  [`${CALLERS}/no-such-path`, 404],
]) {
  const { status } = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  console.log(`${url}: ${status}, expected ${expected}`);
  if (status !== expected) process.exitCode = 1;
}
