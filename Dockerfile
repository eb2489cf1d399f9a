# The image of the gateway, without the sandbox (.dockerignore).
# docs/delivery.md explains how to build and run it. test/delivery/image.long.ts executes these steps.

# The Node that package.json pins for development and tests also runs here.
ARG NODE_VERSION=26.10.0
# @sha256:… pins the base image to one build. docs/delivery.md explains how to find and renew it.
ARG NODE_DIGEST=

FROM node:${NODE_VERSION}-trixie-slim${NODE_DIGEST} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# `optional` leaves out OpenTelemetry, and with it a third of the packages' size: the gateway then refuses to trace.
ARG OMIT=dev
# The base image contains Node, so the package with the pinned Node goes. So do type declarations and source maps, which nothing
# reads. No package needs its install script. The empty directory becomes /data, because the stage below only copies files.
RUN npm ci --omit=dev --omit="${OMIT}" --ignore-scripts --no-audit \
 && rm -rf node_modules/node-linux-* node_modules/.bin/node \
 && find node_modules -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' \) -delete \
 && mkdir data

FROM node:${NODE_VERSION}-trixie-slim${NODE_DIGEST}
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="property-gateway" \
      org.opencontainers.image.description="The gateway that a company puts in front of a third-party property API" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The gateway writes below DATA_DIR only. Node's cache of compiled code would go to the directory for temporary files,
# which may be read-only.
ENV NODE_ENV=production \
    NODE_DISABLE_COMPILE_CACHE=1 \
    DATA_DIR=/data
WORKDIR /app
# root owns the code. The process runs as another user, which cannot change it.
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json ./
COPY config ./config
COPY src ./src
COPY --from=dependencies --chown=65532:65532 /app/data /data
# A number, so that Kubernetes can check that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8080 9090
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --start-interval=1s --retries=3 \
  CMD ["node", "--disable-sigusr1", "src/start.mjs", "health-check"]
# Without --disable-sigusr1, SIGUSR1 would open Node's inspector, through which every process in the pod could read the
# private key. There is no shell in between, so signals reach Node. Node needs no init as process 1: it handles SIGTERM and SIGINT itself, and
# starts no children.
# --max-semi-space-size makes Node collect young garbage sooner: a flood of requests then takes a third less memory.
ENTRYPOINT ["node", "--disable-sigusr1", "--max-semi-space-size=16", "src/start.mjs"]
CMD ["gateway"]
