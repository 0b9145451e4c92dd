"""Files of the page: only those that the package has, each read when it is asked for."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from memalchemy.http.server._problems import Problem

ROOT = Path(__file__).parent / "static"
INDEX = "index.html"

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


def static_files() -> dict[str, Path]:
    """Return the files of the page by their paths in URLs."""
    files = (file for file in ROOT.rglob("*") if file.is_file() and file.suffix in TYPES)
    return {file.relative_to(ROOT).as_posix(): file for file in files}


class StaticFiles:
    """Answers with a file that was there when the application was made.

    A browser asks each time, and is answered without the content if it has it already.
    """

    def __init__(self) -> None:
        self._files = static_files()

    async def __call__(self, request: Request) -> Response:
        """Return the response to a request for a file.

        Raises:
            Problem: there is no such file.
        """
        file = self._files.get(request.path_params.get("file") or INDEX)
        if file is None:
            raise Problem(404, "there is no such file")
        content = file.read_bytes()
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=TYPES[file.suffix])
