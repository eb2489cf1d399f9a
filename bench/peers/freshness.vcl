# Varnish as a cache that obeys the origin's `Cache-Control` and serves nothing stale. bench/servers.ts fills in the placeholders.
vcl 4.1;

backend origin {
  .host = "127.0.0.1";
  .port = "{{originPort}}";
}

sub vcl_backend_response {
  set beresp.grace = 0s;
}
