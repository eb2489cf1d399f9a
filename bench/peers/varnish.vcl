# Varnish as a cache in front of the origin. bench/servers.ts fills in the placeholders.
vcl 4.1;

backend origin {
  .host = "127.0.0.1";
  .port = "{{originPort}}";
}

sub vcl_backend_response {
  set beresp.ttl = 1d;
}
