/** A port that a server could be given, and what changes it. */
interface PortChoice {
  readonly port: number;
  /** The option, and where there is one the variable and the setting. */
  readonly changedBy: string;
}

/**
 * Explains the error of a server that could not listen.
 * @returns one line; `undefined` where the port is not in use, or not one of these
 */
export function describePortInUse(error: unknown, choices: readonly PortChoice[]): string | undefined {
  if (!(error instanceof Error) || Reflect.get(error, "code") !== "EADDRINUSE") return undefined;
  const port: unknown = Reflect.get(error, "port");
  const choice = choices.find((candidate) => candidate.port === port);
  return (
    choice && `Port ${choice.port} is in use by another program. Choose another with ${choice.changedBy}.`
  );
}

/** The ports of a gateway. */
export function gatewayPorts({
  server,
  admin,
}: {
  readonly server: { readonly port: number };
  readonly admin: { readonly port: number };
}): PortChoice[] {
  return [
    { port: server.port, changedBy: "--port, PORT or server.port" },
    { port: admin.port, changedBy: "--admin-port, ADMIN_PORT or admin.port" },
  ];
}
