import * as z from "zod";

import { optional, setting } from "./setting.ts";
import { duration, flag, integer, oneOf, port } from "./number-shapes.ts";
import { headerName, host, network, optionalPath, origin, secretFile } from "./text-shapes.ts";

/**
 * TLS on a port.
 * @param prefix the prefix of the environment variables
 */
function tls(port: string, prefix: string) {
  return z.strictObject({
    certFile: setting(optionalPath("file"), {
      env: `${prefix}TLS_CERT_FILE`,
      description: `A PEM file with the certificate of ${port} and its chain. It switches TLS on.`,
    }),
    keyFile: setting(optionalPath("file"), {
      env: `${prefix}TLS_KEY_FILE`,
      description: "A PEM file with the private key of certFile, not encrypted.",
    }),
  });
}

/** The port for callers. */
export const server = z.strictObject({
  host: setting(host(), {
    default: "0.0.0.0",
    env: "HOST",
    description: "The address on which the gateway listens for callers.",
  }),
  port: setting(port(), {
    default: 8080,
    env: "PORT",
    description: "The port on which the gateway listens for callers.",
  }),
  tls: tls("the callers' port", ""),
  appIdHeader: setting(headerName(), {
    default: "X-App-Id",
    description: "The request header that names the calling app.",
  }),
  docs: setting(flag(), {
    default: true,
    description: "Whether `/` and `/docs` on this port explain the interface to app developers.",
  }),
  corsOrigins: setting(
    z.array(setting(origin(), { description: "One origin, such as https://www.example.com." })),
    {
      default: [],
      reloadable: true,
      expected: "a list of origins, each as https://host",
      description: "The origins whose web pages may call the gateway from a browser (CORS).",
    },
  ),
  trustedProxies: setting(
    z.array(setting(network(), { description: "One address or network, such as 10.0.0.0/8." })),
    {
      default: [],
      expected:
        "a list of addresses and networks, each as 10.0.0.1, 10.0.0.0/8, loopback, linklocal or uniquelocal",
      description:
        "The load balancers in front of the gateway. The log shows the client address that they name in X-Forwarded-For.",
    },
  ),
  maxConnections: setting(integer(1, 100_000), {
    default: 5000,
    description: "The most open connections on each of the two ports.",
  }),
  readyWithout: setting(optional(oneOf("redis")), {
    description:
      "Unset: /readyz is 503 until the replica has joined the budget in Redis, so a rollout stops while Redis is away. redis: after 5 seconds it is ready all the same, to serve cached answers.",
  }),
  stopDelayMs: setting(duration({ minMs: 0 }), {
    default: "2s",
    env: "STOP_DELAY",
    reloadable: true,
    description: "How long the gateway still accepts requests after SIGTERM.",
  }),
  drainTimeoutMs: setting(duration(), {
    default: "10s",
    reloadable: true,
    description: "How long requests in flight may take after stopDelay.",
  }),
});

/** The port for operators. */
export const admin = z.strictObject({
  host: setting(optional(host()), {
    env: "ADMIN_HOST",
    description:
      "The address on which the gateway listens for operators. Unset means 127.0.0.1 without a token, and server.host with one.",
  }),
  port: setting(port(), {
    default: 9090,
    env: "ADMIN_PORT",
    description: "The port on which the gateway listens for operators.",
  }),
  tokenFile: setting(secretFile(), {
    env: "ADMIN_TOKEN_FILE",
    secretEnv: "ADMIN_TOKEN",
    description:
      "The path of a file that holds only the token of the admin port. Set either this or ADMIN_TOKEN.",
  }),
  tls: tls("the operators' port", "ADMIN_"),
});
