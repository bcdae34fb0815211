# syntax=docker/dockerfile:1
# A small image that holds the one binary and its default configuration; it runs as nobody in particular.
#
#   docker build -t cubewarden .
#   docker run --network host -v cubewarden:/var/lib/cubewarden cubewarden
#
# With --network host it finds Cube on loopback, as on a Cube node. Elsewhere, set CUBEWARDEN_UPSTREAM_URL and
# CUBEWARDEN_LISTEN_PROXY=0.0.0.0:3000, and publish port 3000.

FROM rust:1.95-bookworm AS build
# zlib-ng, which pingora-core brings, is built with cmake.
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin cubewarden \
 && cp target/release/cubewarden /cubewarden

FROM debian:bookworm-slim
# Whom to trust, for a Redis that speaks TLS.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /var/lib/cubewarden --create-home cubewarden
COPY --from=build /cubewarden /usr/local/bin/cubewarden
COPY config/cubewarden.toml /etc/cubewarden/cubewarden.toml
# By number, so that a cluster which insists on "not root" can see it.
USER 10001:10001
WORKDIR /var/lib/cubewarden
ENV CUBEWARDEN_STORE_PATH=/var/lib/cubewarden/data
VOLUME /var/lib/cubewarden
EXPOSE 3000 9300
# SIGTERM drains: what is under way is finished, new calls are refused.
STOPSIGNAL SIGTERM
# Alive, not ready: a warden whose Cube is down must not be restarted for it. No curl in the image; bash will do.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/9300 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["cubewarden"]
CMD ["serve", "--config", "/etc/cubewarden/cubewarden.toml"]
