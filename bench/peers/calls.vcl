# Varnish as a carefully configured cache. The key is the URL with sorted parameters, in lower case, without leading zeros,
# without `offset=0` and without a slash at the end. bench/servers.ts fills in the placeholders.
vcl 4.1;

import std;

backend origin {
  .host = "127.0.0.1";
  .port = "{{originPort}}";
}

sub vcl_recv {
  set req.http.X-Page = std.tolower(std.querysort(req.url));
  set req.http.X-Page = regsub(req.http.X-Page, "^(/[^/?]+)/", "\1");
  set req.http.X-Page = regsuball(req.http.X-Page, "=0+([0-9])", "=\1");
  set req.http.X-Page = regsub(req.http.X-Page, "([?&])offset=0(&|$)", "\1");
  set req.http.X-Page = regsub(req.http.X-Page, "[?&]$", "");
}

sub vcl_hash {
  hash_data(req.http.X-Page);
  return (lookup);
}

sub vcl_backend_response {
  set beresp.ttl = 1d;
}
