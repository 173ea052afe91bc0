# What is kept of an origin, by Varnish, which compresses what it keeps by itself.
vcl 4.1;

backend origin {
    .host = "127.0.0.1";
    .port = "@ORIGIN@";
}

sub vcl_backend_response {
    if (bereq.url ~ "^/packed/") {
        set beresp.do_gzip = true;
    }
}
