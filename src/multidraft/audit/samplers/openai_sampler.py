"""Any server with the completions endpoint of OpenAI's API."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence
from typing import Any

import requests

from multidraft.audit.setting import Answer, Request, Setting
from multidraft.errors import AuditError

_TIMEOUT = (10.0, 600.0)  # seconds to connect, and between two pieces of an answer
_SHOWN = 300  # characters of a server's own words


class OpenAISampler:
    """Sends ``setting.batch`` requests at a time to ``base_url``/completions; answers are texts.

    Only fields of OpenAI's own API are sent, and ``top_k`` and ``min_p`` where they are not off:
    the server must be told by its own options to go on past end tokens, and to take no sampling
    defaults from the model's folder. The key, if any, is the environment's OPENAI_API_KEY.

    Args:
        setting: how to sample.
        base_url: such as http://localhost:8000/v1.
        model: the name the server knows the target by.
    """

    def __init__(self, setting: Setting, base_url: str, model: str):
        self.name = f"openai, {model} at {base_url}"
        self._url = base_url.rstrip("/") + "/completions"
        self._model = model
        self._setting = setting
        self._todo: queue.SimpleQueue[tuple[int, Request] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, str | AuditError]] = queue.SimpleQueue()

    def __enter__(self) -> OpenAISampler:
        # Daemons: Ctrl-C does not wait for a server that is still at work.
        for _ in range(self._setting.batch):
            threading.Thread(target=self._work, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        while not self._todo.empty():
            self._todo.get()
        for _ in range(self._setting.batch):
            self._todo.put(None)

    def sample(self, requests: Sequence[Request]) -> list[Answer]:
        """See `Sampler`. After an error, or Ctrl-C, the sampler can only be left."""
        for item in enumerate(requests):
            self._todo.put(item)
        answers: dict[int, Answer] = {}
        while len(answers) < len(requests):
            number, answer = self._done.get()
            if isinstance(answer, AuditError):
                raise answer
            answers[number] = answer
        return [answers[i] for i in range(len(requests))]

    def _work(self) -> None:
        with requests.Session() as session:
            if key := os.environ.get("OPENAI_API_KEY"):
                session.headers["Authorization"] = f"Bearer {key}"
            while (item := self._todo.get()) is not None:
                number, request = item
                try:
                    self._done.put((number, self._complete(session, request)))
                except AuditError as error:
                    self._done.put((number, error))
                except Exception as error:  # such as a key that is no ASCII: else none would answer
                    failed = AuditError(f"The request to {self._url} failed: {_one_line(error)}")
                    self._done.put((number, failed))

    def _complete(self, session: requests.Session, request: Request) -> str:
        try:
            response = session.post(self._url, json=self._body(request), timeout=_TIMEOUT)
        except requests.ConnectionError as error:
            raise AuditError(
                f"No connection to {self._url}; check the address, and that the server runs."
            ) from error
        except requests.RequestException as error:
            raise AuditError(f"The request to {self._url} failed: {_one_line(error)}") from error
        if not response.ok:
            raise AuditError(
                f"{self._url} answered {response.status_code}: {_message_of(response)}"
            )
        try:
            text = response.json()["choices"][0]["text"]
        except (ValueError, KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise AuditError(f"{self._url} answered with no completion: {_one_line(response.text)}")
        return text

    def _body(self, request: Request) -> dict[str, Any]:
        setting = self._setting
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": request.text,
            "max_tokens": setting.num_tokens,
            "temperature": setting.temperature,
            "top_p": setting.top_p,
            "n": 1,
            "seed": request.seed,
        }
        if setting.top_k:
            body["top_k"] = setting.top_k
        if setting.min_p:
            body["min_p"] = setting.min_p
        return body


def _message_of(response: requests.Response) -> str:
    """What a server says is wrong, wherever it says it."""
    try:
        found = response.json()
        found = found.get("error", found)
        message = found if isinstance(found, str) else found["message"]
    except (ValueError, KeyError, AttributeError, TypeError):
        message = response.text
    return _one_line(message)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:_SHOWN] or "an empty answer"
