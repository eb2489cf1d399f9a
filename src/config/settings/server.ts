import * as z from "zod";

import * as shape from "./shapes.ts";
import { optional, setting } from "./setting.ts";

/** TLS on a port. @param prefix of the environment variables */
function tls(prefix: string) {
  return z.strictObject({
    /** A PEM file with the certificate of the port and its chain. It switches TLS on. */
    certFile: setting(shape.optionalPath, { env: `${prefix}TLS_CERT_FILE` }),
    /** A PEM file with the private key of certFile, not encrypted. */
    keyFile: setting(shape.optionalPath, { env: `${prefix}TLS_KEY_FILE` }),
  });
}

/** The port for callers. */
export const server = z.strictObject({
  /** The address on which the gateway listens for callers. */
  host: setting(shape.host, { default: "0.0.0.0", env: "HOST" }),
  /** The port on which the gateway listens for callers. */
  port: setting(shape.port, { default: 8080, env: "PORT" }),
  tls: tls(""),
  /** The request header that names the calling app. */
  appIdHeader: setting(shape.headerName, { default: "X-App-Id" }),
  /** Whether `/` and `/docs` on this port explain the interface to app developers. */
  docs: setting(shape.flag, { default: true }),
  /** The origins whose web pages may call the gateway from a browser (CORS). */
  corsOrigins: setting(shape.listOf(shape.origin, "origins, each as https://host"), { reloadable: true }),
  /** The load balancers in front of the gateway. The log shows the client address that they name in X-Forwarded-For. */
  trustedProxies: shape.listOf(
    shape.network,
    "addresses and networks, each as 10.0.0.1, 10.0.0.0/8, loopback, linklocal or uniquelocal",
  ),
  /** The most open connections on each of the two ports. */
  maxConnections: setting(shape.integer(1, 100_000), { default: 5000 }),
  /**
   * Unset: /readyz is 503 until the replica has joined the budget in Redis, so a rollout stops while Redis is away. redis:
   * it is ready all the same, to serve cached answers.
   */
  readyWithout: optional(shape.oneOf("redis")),
  /** How long the gateway still accepts requests after SIGTERM. */
  stopDelayMs: setting(shape.duration({ minMs: 0 }), { default: "2s", env: "STOP_DELAY", reloadable: true }),
  /** How long requests in flight may take after stopDelay. */
  drainTimeoutMs: setting(shape.duration(), { default: "10s", reloadable: true }),
});

/** The port for operators. */
export const admin = z.strictObject({
  /**
   * The address on which the gateway listens for operators. Unset means 127.0.0.1 without a token, and server.host with
   * one.
   */
  host: setting(optional(shape.host), { env: "ADMIN_HOST" }),
  /** The port on which the gateway listens for operators. */
  port: setting(shape.port, { default: 9090, env: "ADMIN_PORT" }),
  /** The path of a file that holds only the token of the admin port. Set either this or ADMIN_TOKEN. */
  tokenFile: shape.secretFile("token", "ADMIN_TOKEN"),
  tls: tls("ADMIN_"),
});
