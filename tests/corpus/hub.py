"""A hub of data sets on localhost: what the package `datasets` asks the Hugging Face hub for."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "a" * 40


@contextmanager
def hub(name: str, files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Serves one data set.

    Yields:
      its address, and the list of paths that are asked for.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = self.path.partition("?")[0]
            asked.append(path)
            file = re.fullmatch(rf"/datasets/{name}/resolve/\w+/(.*)", path)
            if file and (content := files.get(file[1])) is not None:
                start, end = re.findall(r"\d+", self.headers.get("Range", "0-999999999"))
                part = content[int(start) : int(end) + 1]
                places = f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}"
                status = 206 if "Range" in self.headers else 200
                self.answer(status, part, ETag='"x"', Content_Range=places)
            elif re.fullmatch(rf"/api/datasets/{name}(/revision/\w+)?", path):
                siblings = [{"rfilename": file} for file in files]
                self.answer(200, {"id": name, "sha": COMMIT, "siblings": siblings, "tags": []})
            elif re.fullmatch(rf"/api/datasets/{name}/tree/\w+", path):
                sizes = {file: len(content) for file, content in files.items()}
                self.answer(
                    200,
                    [{"type": "file", "path": f, "size": n, "oid": "b"} for f, n in sizes.items()],
                )
            else:
                code = "EntryNotFound" if f"/{name}/" in path else "RepoNotFound"
                self.answer(404, b"", X_Error_Code=code)

        do_HEAD = do_GET

        def answer(self, status: int, content: object, **headers: str) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for header, value in (headers | {"X_Repo_Commit": COMMIT}).items():
                self.send_header(header.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
