"""The completions endpoint, against a small server in this process."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from multidraft.audit.samplers import open_sampler
from multidraft.errors import AuditError
from tests.audit.samplers.conftest import MakeRequests, MakeSetting

Reply = Callable[[dict[str, Any]], tuple[int, str]]


class Server(ThreadingHTTPServer):
    """Replies as told; remembers paths, keys and bodies, and how many were at work at once."""

    reply: Reply
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str | None, dict[str, Any]]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((self.path, self.headers["Authorization"], body))
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        status, text = self.server.reply(body)
        with self.server.lock:
            self.server.at_once -= 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def completion(body: dict[str, Any]) -> tuple[int, str]:
    time.sleep(0.02)
    text = "abcdefgh"[body["seed"] % 8] * body["max_tokens"]
    return 200, json.dumps({"choices": [{"index": 0, "text": text}]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        running.reply = completion
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_answers_and_what_is_sent(
    server: Server, setting: MakeSetting, requests: MakeRequests
) -> None:
    with open_sampler("openai", setting(), base_url=server.url + "/", model="tiny") as sampler:
        assert sampler.sample(requests(20)) == ["abcdefgh"[i % 8] * 5 for i in range(20)]
    assert 1 < server.most_at_once <= 4
    path, key, _ = server.seen[0]
    assert (path, key) == ("/v1/completions", None)
    assert sorted(body["seed"] for *_, body in server.seen) == list(range(20))
    body = next(body for *_, body in server.seen if body["seed"] == 1)
    assert body == {
        "model": "tiny",
        "prompt": "eafb",
        "max_tokens": 5,
        "temperature": 1.0,
        "top_p": 1.0,
        "n": 1,
        "seed": 1,
    }


def test_top_k_min_p_and_the_key_are_sent_where_there_are_any(
    server: Server,
    setting: MakeSetting,
    requests: MakeRequests,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    options = {"base_url": server.url, "model": "tiny"}
    with open_sampler("openai", setting(top_k=3, min_p=0.1), **options) as sampler:
        sampler.sample(requests(1))
    _, key, body = server.seen[0]
    assert (key, body["top_k"], body["min_p"]) == ("Bearer sk-1", 3, 0.1)


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (400, '{"error": {"message": "seed is\\nnot supported"}}', "400: seed is not supported$"),
        (404, '{"object": "error", "message": "no such model"}', "404: no such model$"),
        (422, '{"error": "bad"}', "422: bad$"),
        (502, "<html>\nBad gateway</html>", "502: <html> Bad gateway</html>$"),
        (500, "", "500: an empty answer$"),
        (200, "not JSON", "no completion: not JSON$"),
        (200, '{"choices": []}', 'no completion: {"choices": \\[\\]}$'),
        (200, '{"choices": [{"text": null}]}', "no completion"),
    ],
)
def test_what_the_server_says_is_one_line(
    server: Server,
    setting: MakeSetting,
    requests: MakeRequests,
    status: int,
    text: str,
    message: str,
) -> None:
    server.reply = lambda body: (status, text)
    with (
        pytest.raises(AuditError, match=message),
        open_sampler("openai", setting(), base_url=server.url, model="tiny") as sampler,
    ):
        sampler.sample(requests(8))


def test_a_server_that_is_not_there(
    setting: MakeSetting, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    with (
        pytest.raises(AuditError, match=f"No connection to {url}"),
        open_sampler("openai", setting(), base_url=url, model="tiny") as sampler,
    ):
        sampler.sample(requests(2))


def test_an_address_that_is_none(setting: MakeSetting, requests: MakeRequests) -> None:
    with (
        pytest.raises(AuditError, match="The request to localhost:1/completions failed"),
        open_sampler("openai", setting(), base_url="localhost:1", model="tiny") as sampler,
    ):
        sampler.sample(requests(1))


def test_a_key_that_cannot_be_sent(
    server: Server, setting: MakeSetting, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ключ")
    with (
        pytest.raises(AuditError, match=r"The request to .* failed"),
        open_sampler("openai", setting(), base_url=server.url, model="tiny") as sampler,
    ):
        sampler.sample(requests(2))


def test_interruption_does_not_wait_for_the_server(
    server: Server, setting: MakeSetting, requests: MakeRequests
) -> None:
    released = threading.Event()

    def interrupting(body: dict[str, Any]) -> tuple[int, str]:
        os.kill(os.getpid(), signal.SIGINT)
        released.wait(30)
        return completion(body)

    server.reply = interrupting
    started = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        open_sampler("openai", setting(batch=1), base_url=server.url, model="tiny") as sampler,
    ):
        sampler.sample(requests(2))
    assert time.monotonic() - started < 5
    released.set()
