"""Runs the binary: once, through two pipes, or on a pseudo-terminal."""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time

FATHOM = os.environ["FATHOM"]
SOURCE = pathlib.Path(os.environ["FATHOM_SOURCE_DIR"])
DATA = pathlib.Path(os.environ["FATHOM_TEST_DATA_DIR"])  # what the build unpacked
MODEL = str(DATA / "golden" / "v3")  # a tiny random V3 with weights, tokenizer and chat template
CONFIG_ONLY = str(SOURCE / "bench" / "configs" / "v2-lite")
TIMEOUT = 300


class Finished:
    """What a run left behind."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def lines(self):
        return self.out.splitlines()

    def json(self):
        return json.loads(self.out)

    def json_lines(self):
        return [json.loads(line) for line in self.out.split("\n") if line]


def run(*arguments, stdin="", environment=None):
    """Runs to the end; stdin is text or bytes. A crash by signal shows as a negative code."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run([FATHOM, *map(str, arguments)], input=data, capture_output=True, timeout=TIMEOUT,
                          env={**os.environ, **(environment or {})})
    return Finished(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace"))


def jsonl(command, model, values, *options):
    """One JSON line per value in, the answers out."""
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    return run(command, model, "--jsonl", *options, stdin=text)


class Pipes:
    """A running binary with pipes on all sides."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([FATHOM, *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode()

    def read_some(self):
        """Blocks until there is output."""
        return os.read(self.process.stdout.fileno(), 65536)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def finish(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        return Finished(self.process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


class Terminal:
    """The binary on a pseudo-terminal, as a person sees it."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.environ["LANG"] = "C.UTF-8"
            os.execv(FATHOM, [FATHOM, *map(str, arguments)])
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, text, timeout=TIMEOUT):
        """Reads until `text` shows up after what earlier calls waited for; returns what came before it."""
        end = time.monotonic() + timeout
        while text not in self.seen:
            if not self._read(end):
                raise AssertionError(f"{text!r} did not show up; seen: {self.seen[-2000:]!r}")
        before, self.seen = self.seen.split(text, 1)
        return before

    def _read(self, end):
        ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def finish(self):
        """Reads to the end and returns the exit code."""
        end = time.monotonic() + TIMEOUT
        while self._read(end):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)
