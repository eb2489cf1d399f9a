# Varnish as a cache in front of the origin. Filled in by bench/servers.ts.
vcl 4.1;

backend origin {
  .host = "127.0.0.1";
  .port = "{{originPort}}";
}

sub vcl_backend_response {
  set beresp.ttl = 1d;
}
