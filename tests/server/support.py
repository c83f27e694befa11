"""Starts the server on a free port and talks to it."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

FATHOM = os.environ["FATHOM"]
SOURCE = pathlib.Path(os.environ["FATHOM_SOURCE_DIR"])
NANO = str(SOURCE / "models" / "nano")
TIMEOUT = 60
# Takes about a second to load: nano's shape, made larger, with random weights.
SLOW_LOAD = ["--load-format", "dummy", "--config-override", "intermediate_size=262144",
             "--kv-memory", "64MiB"]


def eventually(condition, what="the condition"):
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true")
        time.sleep(0.02)


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Server:
    """A running server; `with Server(...) as server` ends it hard if the test did not."""

    def __init__(self, *arguments, model=NANO, wait=True, port=0, threads=1):
        self.stderr = tempfile.TemporaryFile()
        command = [FATHOM, "serve", model, "--port", str(port), "--threads", str(threads), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.stderr)
        self.summary = ""
        self.first_line = self.process.stdout.readline().decode()
        found = re.search(r":(\d+);", self.first_line)
        if not found:
            self.process.wait(TIMEOUT)
            log = self.log()
            self.__exit__()
            raise AssertionError(f"the server did not start: {log}")
        self.port = int(found[1])
        threading.Thread(target=self._collect, daemon=True).start()
        if wait:
            self.wait_ready()

    def _collect(self):
        for line in self.process.stdout:
            self.summary += line.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.stderr.close()

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, self.log()
            return self.get("/ready").status == 200
        eventually(ready, "readiness")

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read().decode("utf-8", "replace")

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self):
        return self.process.wait(TIMEOUT)

    def terminate(self):
        self.signal(signal.SIGTERM)
        return self.finish()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def request(self, method, path, body=None, headers=None):
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers or {})
            return Reply(connection.getresponse())

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, value, headers=None):
        return self.request("POST", path, json.dumps(value), {"Content-Type": "application/json", **(headers or {})})

    def complete(self, headers=None, **fields):
        return self.post("/v1/completions", {"model": NANO, "prompt": "a", "ignore_eos": True, **fields}, headers)

    def socket(self, data=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)
        connection.sendall(data)
        return connection

    def metrics(self):
        """Values of all series, by their text up to the value."""
        lines = self.get("/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}


class Stream:
    """A streamed completion that is read event by event."""

    def __init__(self, server, **fields):
        self.connection = server.connect()
        body = {"model": NANO, "prompt": "a", "ignore_eos": True, "stream": True, **fields}
        self.connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        """The data of the next event; None at the end."""
        while line := self.response.readline():
            if line.startswith(b"data: "):
                return line[6:].strip().decode()
        return None

    def all(self):
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        self.close()
        return events

    def close(self):
        self.response.close()
        self.connection.close()


def read_all(connection):
    """Bytes up to the end of the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return data
