import * as z from "zod";

import * as shape from "./shapes.ts";
import { optional, setting } from "./setting.ts";

/**
 * TLS on a port.
 * @param prefix the prefix of the environment variables
 */
function tls(which: string, prefix: string) {
  return z.strictObject({
    certFile: setting(
      shape.optionalPath,
      `A PEM file with the certificate of ${which} and its chain. It switches TLS on.`,
      { env: `${prefix}TLS_CERT_FILE` },
    ),
    keyFile: setting(shape.optionalPath, "A PEM file with the private key of certFile, not encrypted.", {
      env: `${prefix}TLS_KEY_FILE`,
    }),
  });
}

/** The port for callers. */
export const server = z.strictObject({
  host: setting(shape.host, "The address on which the gateway listens for callers.", {
    default: "0.0.0.0",
    env: "HOST",
  }),
  port: setting(shape.port, "The port on which the gateway listens for callers.", {
    default: 8080,
    env: "PORT",
  }),
  tls: tls("the callers' port", ""),
  appIdHeader: setting(shape.headerName, "The request header that names the calling app.", {
    default: "X-App-Id",
  }),
  docs: setting(shape.flag, "Whether `/` and `/docs` on this port explain the interface to app developers.", {
    default: true,
  }),
  corsOrigins: setting(
    z.array(setting(shape.origin, "One origin, such as https://www.example.com.")),
    "The origins whose web pages may call the gateway from a browser (CORS).",
    { default: [], reloadable: true, expected: "a list of origins, each as https://host" },
  ),
  trustedProxies: setting(
    z.array(setting(shape.network, "One address or network, such as 10.0.0.0/8.")),
    "The load balancers in front of the gateway. The log shows the client address that they name in X-Forwarded-For.",
    {
      default: [],
      expected:
        "a list of addresses and networks, each as 10.0.0.1, 10.0.0.0/8, loopback, linklocal or uniquelocal",
    },
  ),
  maxConnections: setting(shape.integer(1, 100_000), "The most open connections on each of the two ports.", {
    default: 5000,
  }),
  readyWithout: setting(
    optional(shape.oneOf("redis")),
    "Unset: /readyz is 503 until the replica has joined the budget in Redis, so a rollout stops while Redis is away. redis: after 5 seconds it is ready all the same, to serve cached answers.",
  ),
  stopDelayMs: setting(
    shape.duration({ minMs: 0 }),
    "How long the gateway still accepts requests after SIGTERM.",
    {
      default: "2s",
      env: "STOP_DELAY",
      reloadable: true,
    },
  ),
  drainTimeoutMs: setting(shape.duration(), "How long requests in flight may take after stopDelay.", {
    default: "10s",
    reloadable: true,
  }),
});

/** The port for operators. */
export const admin = z.strictObject({
  host: setting(
    optional(shape.host),
    "The address on which the gateway listens for operators. Unset means 127.0.0.1 without a token, and server.host with one.",
    { env: "ADMIN_HOST" },
  ),
  port: setting(shape.port, "The port on which the gateway listens for operators.", {
    default: 9090,
    env: "ADMIN_PORT",
  }),
  tokenFile: setting(
    shape.secretFile,
    "The path of a file that holds only the token of the admin port. Set either this or ADMIN_TOKEN.",
    { env: "ADMIN_TOKEN_FILE", secretEnv: "ADMIN_TOKEN" },
  ),
  tls: tls("the operators' port", "ADMIN_"),
});
