"""A proxy that answers nothing and records who asks."""

import socketserver
import threading


class Recorder:
    """A server on this machine.

    Attributes:
      address: of the proxy, "http://127.0.0.1:PORT".
      lines: the first line of every request that has arrived.
    """

    def __init__(self) -> None:
        lines: list[str] = []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # Browsers also open connections in advance, and close them unused.
                if not (line := self.rfile.readline(10_000)):
                    return
                lines.append(line.decode("latin-1").strip())
                self.wfile.write(b"HTTP/1.1 503 No network\r\nContent-Length: 0\r\n\r\n")

        self.lines = lines
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
