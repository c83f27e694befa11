"""Drives a headless Chromium through its debugging pipe; standard library only."""
import base64
import collections
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 60
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, "")}


class Browser:
    """One page; `with Browser() as page`. What the page logs and loads is kept."""

    def __init__(self, width=1200, height=800, dark=False):
        self.width, self.height, self.dark = width, height, dark
        self.problems = []  # exceptions, errors of the console, violations of the policy
        self.loaded = []    # every address that was asked for
        self.last_id = 0
        self.data = b""
        self.messages = collections.deque()
        self.session = None

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()
        # The browser takes descriptors 3 and 4, which may be among those of the pipes.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_browser, from_browser)]

        def connect():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [CHROMIUM, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                   "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                   f"--user-data-dir={self.profile.name}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=connect, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_browser, from_browser, *high):
            os.close(fd)
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        self.resize(self.width, self.height)
        self.scheme(self.dark)
        return self

    def __exit__(self, *_):
        os.close(self.output)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.input)
        self.profile.cleanup()

    def _receive(self, wait):
        """The next message, or None if none comes within `wait` seconds."""
        end = time.monotonic() + wait
        while not self.messages:
            if not select.select([self.input], [], [], max(0, end - time.monotonic()))[0]:
                return None
            piece = os.read(self.input, 1 << 16)
            assert piece, "Chromium ended"
            *whole, self.data = (self.data + piece).split(b"\0")
            self.messages.extend(map(json.loads, whole))
        message = self.messages.popleft()
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])

    def command(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (reply := self._receive(TIMEOUT)) is not None:
            if reply.get("id") == self.last_id:
                assert "error" not in reply, (method, reply)
                return reply["result"]
        raise AssertionError(f"Chromium did not answer {method}")

    def open(self, url):
        self.command("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def resize(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=False)

    def scheme(self, dark):
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        """The value of an expression, awaited if it is a promise."""
        result = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                              userGesture=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition):
        end = time.monotonic() + TIMEOUT
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} did not come true: {self.run('document.body.innerText')}"
            time.sleep(0.02)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, text):
        """Into what has the focus, as if typed."""
        self.command("Input.insertText", text=text)

    def press(self, key, shift=False):
        name, code, text = KEYS[key]
        fields = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.command("Input.dispatchKeyEvent", type="keyDown", text=text, **fields)
        self.command("Input.dispatchKeyEvent", type="keyUp", **fields)

    def screenshot(self, path):
        image = self.command("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(image))
