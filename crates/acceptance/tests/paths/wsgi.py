"""A WSGI application, whose server decodes the path: what begins with /admin is protected."""
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
import socketserver


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def application(environ, start_response):
    path = environ["PATH_INFO"]
    protected = path == "/admin" or path.startswith("/admin/")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"the secret of the admin" if protected else b"open"]


host, port = sys.argv[1].rsplit(":", 1)
make_server(host, int(port), application, Server, Quiet).serve_forever()
