"""An OpenLineage endpoint of the tests' own, which keeps what it gets."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Endpoint(BaseHTTPRequestHandler):
    """Keeps path, authorization and body of every request."""

    got: list = []
    answer = 201
    location = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers.get("Authorization"), json.loads(body)))
        self.send_response(self.answer)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@contextmanager
def listening() -> Iterator[tuple[str, type[Endpoint]]]:
    """An endpoint at a URL, with what it gets."""
    handler = type("One", (Endpoint,), {"got": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
