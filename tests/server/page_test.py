"""The page at "/" in a headless Chromium, against the real server. Exits with 77 where there is no Chromium."""
import json
import os
import pathlib
import signal
import sys
import unittest

from browser import CHROMIUM, Browser
from support import Server

SHOTS = os.environ.get("FATHOM_SCREENSHOTS")  # a folder that receives pictures for people to look at
READY = "document.getElementById('status').dataset.state === 'ready' && !document.getElementById('model').disabled"
IDLE = "!document.getElementById('send').hidden"
WEATHER = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
MARKDOWN = """# Title
Some **bold**, *emphasis*, `a *b*`, 2 * 3 * 4, snake_case_name,
[link](https://example.com/a) [no](javascript:alert%281%29)
<img src=x onerror=alert(1)> https://example.com/b.

1. one
2. two
   - nested

> quoted

| a | b |
|---|---|
| 1 | `2` |

```python
x = "<b>"
```
tail

```
open"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--served-model-name", "nano", "--served-model-name", "alias").__enter__()
        cls.url = f"http://127.0.0.1:{cls.server.port}/"

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def browser(self, **options):
        page = Browser(**options)
        page.__enter__()
        self.addCleanup(page.__exit__)
        page.open(self.url)
        page.wait(READY)
        return page

    def shot(self, page, name):
        if SHOTS:
            page.screenshot(pathlib.Path(SHOTS, name + ".png"))

    def ask(self, page, text):
        page.run("document.getElementById('input').focus()")
        page.type(text)
        page.press("Enter")
        page.wait(IDLE)
        return page.text(".answer:last-of-type .markdown:not(.thinking .markdown)")

    def settings(self, page, **values):
        for name, value in values.items():
            page.run(f"document.getElementById('s-{name}').value = {json.dumps(value)}")

    def clean(self, page):
        """Nothing went wrong, and nothing was asked of another server."""
        self.assertEqual(page.problems, [])
        self.assertEqual([url for url in page.loaded if not url.startswith((self.url, "about:"))], [])

    def test_chat(self):
        page = self.browser()
        self.assertEqual(page.run("[...document.getElementById('model').options].map(o => o.value)"), ["nano", "alias"])
        self.assertEqual(page.run("document.activeElement.id"), "input")
        self.assertEqual(self.ask(page, "Reverse: spring"), "gnirps")
        stats = page.text(".stats")
        self.assertRegex(stats, r"^6 tokens · [\d.]+ tok/s · first token .*s · prompt 9, \d+ cached · seed \d+ · "
                                r"fp_\w+$")
        self.assertEqual(page.run("document.getElementById('announce').textContent"), "gnirps")
        self.assertEqual(self.ask(page, "What is 646 + 5?"), "651")
        self.assertEqual(self.ask(page, "Subtract 1 from that."), "650")  # the history is sent
        page.wait("document.getElementById('m-hits').textContent.endsWith('%')")
        page.wait("document.getElementById('chart-line').getAttribute('d')?.length > 20")
        page.wait("document.getElementById('m-running').textContent === '0'")
        self.shot(page, "light")
        page.click(".answer:last-of-type .buttons button:last-child")  # Retry
        page.wait(IDLE)
        self.assertEqual(page.run("document.querySelectorAll('.turn').length"), 6)
        self.assertEqual(page.text(".answer:last-of-type .markdown:not(.thinking .markdown)"), "650")
        page.click("#clear")
        self.assertEqual(page.run("document.querySelectorAll('.turn').length"), 0)
        self.clean(page)

    def test_stop_with_escape_and_lines_with_shift(self):
        page = self.browser()
        page.type("a")
        page.press("Enter", shift=True)
        self.assertEqual(page.run("document.getElementById('input').value"), "a\n")
        self.assertEqual(page.run("document.querySelectorAll('.turn').length"), 0)
        # A stream that never ends by itself: the server answers, the page must cancel it.
        page.run("""window.fetch = ((real) => (path, options) => real(path, options.body
            ? {...options, body: options.body.replace('{', '{"ignore_eos":true,"temperature":0,')} : options))(fetch)""")
        page.press("Enter")
        page.wait("document.querySelectorAll('.answer .markdown')[1]?.innerText.length > 20")
        self.assertTrue(page.run("document.getElementById('send').hidden"))
        self.shot(page, "during")
        page.press("Escape")
        page.wait(IDLE)
        self.assertIn("stopped", page.text(".stats"))
        page.wait("document.getElementById('m-running').textContent === '0'")
        self.clean(page)

    def test_settings(self):
        page = self.browser()
        self.settings(page, temperature="0.5", seed="9007199254740993", **{"max-tokens": "3"})
        first = self.ask(page, "Repeat after me: 91c8b338-9f4a-f1d8")
        self.assertIn("seed 9007199254740993", page.text(".stats"))  # 64 bits arrive
        self.assertIn("cut at the limit", page.text(".stats"))
        page.click("#clear")
        self.assertEqual(self.ask(page, "Repeat after me: 91c8b338-9f4a-f1d8"), first)
        self.settings(page, temperature="9")
        page.run("document.getElementById('input').focus()")
        page.type("kept")
        page.press("Enter")
        self.assertIn("Temperature must be a number from 0 to 2", page.text("#settings-error"))
        self.assertEqual(page.run("document.getElementById('input').value"), "kept")
        self.clean(page)

    def test_tool_calls(self):
        page = self.browser(dark=True)
        self.settings(page, tools=json.dumps(WEATHER))
        self.ask(page, "How is the weather in Rome?")
        self.assertIn("get_weather", page.text(".call"))
        self.assertEqual(json.loads(page.text(".call pre")), {"city": "Rome"})
        self.assertTrue(page.run("document.querySelector('.calls .primary').disabled"))
        page.run("document.querySelector('.call textarea').focus()")
        page.type('{"weather": "sunny"}')
        self.shot(page, "tools-dark")
        page.click(".calls .primary")
        page.wait(f"{IDLE} && document.querySelectorAll('.answer').length === 2")
        self.assertEqual(page.run("document.querySelectorAll('.problem:not([hidden])').length"), 0)
        self.clean(page)

    def test_errors_say_what_to_do(self):
        page = self.browser()
        self.ask(page, "x " * 6000)
        problem = page.text(".problem")
        self.assertIn("4096", problem)
        self.assertIn("Start a new chat", problem)
        self.shot(page, "error")
        self.assertTrue(all("400" in each for each in page.problems), page.problems)

    def test_api_key_is_asked_for_and_kept_in_the_tab(self):
        with Server("--api-key", "sk-test", "--served-model-name", "nano") as server, Browser() as page:
            page.open(f"http://127.0.0.1:{server.port}/")
            page.wait("document.getElementById('key-dialog').open")
            self.shot(page, "key")
            page.type("wrong")
            page.press("Enter")
            page.wait("document.getElementById('key-message').textContent.includes('not know') && "
                      "document.getElementById('key-dialog').open")
            page.type("sk-test")
            page.press("Enter")
            page.wait(READY)
            self.assertEqual(self.ask(page, "Reverse: spring"), "gnirps")
            self.assertEqual(page.run("sessionStorage.length"), 1)
            self.assertNotIn("sk-", page.run("JSON.stringify(localStorage)"))
            page.open(f"http://127.0.0.1:{server.port}/")
            page.wait(READY)
            self.assertFalse(page.run("document.getElementById('key-dialog').open"))

    def test_server_that_goes_away(self):
        with Server("--served-model-name", "nano") as server, Browser() as page:
            page.open(f"http://127.0.0.1:{server.port}/")
            page.wait(READY)
            server.signal(signal.SIGTERM)
            server.finish()
            page.wait("document.getElementById('status').dataset.state === 'unreachable'")
            page.run("document.getElementById('input').focus()")
            page.type("hello")
            page.press("Enter")
            page.wait("document.querySelector('.problem:not([hidden])')")
            self.assertIn("Check that fathom serve runs", page.text(".problem"))

    def test_thinking_and_markdown(self):
        page = self.browser()
        page.run("""(async () => {
          const { AnswerTurn } = await import("/page/turn.js");
          const turn = window.turn = new AnswerTurn({ retry() {} });
          document.getElementById("empty").hidden = true;
          document.getElementById("log").append(turn.root);
          const say = (delta) => turn.take({ choices: [{ delta }] });
          say({ reasoning_content: "Let me **think**." });
          turn.draw();
          window.openWhileThinking = turn.thinkingBox.open && !turn.thinkingBox.hidden;
          // Character by character, as a stream may come.
          for (const character of %s) { say({ content: character }); turn.draw(); }
          turn.finish();
        })()""" % json.dumps(MARKDOWN))
        self.assertTrue(page.run("openWhileThinking"))
        self.assertFalse(page.run("turn.thinkingBox.open"))
        self.assertIn("Thought for", page.text(".thinking summary"))
        self.assertEqual(page.run("turn.thinking.root.textContent"), "Let me think.")
        html = page.run("turn.view.root.innerHTML")
        for part in ("<h3>Title</h3>", "<strong>bold</strong>", "<em>emphasis</em>", "<code>a *b*</code>", "2 * 3 * 4",
                     "snake_case_name", ">link</a>", "</a> no\n&lt;img src=x onerror=alert(1)&gt;",
                     ">https://example.com/b</a>.",
                     "<ol start=\"1\"><li>one</li><li>two<ul><li>nested</li></ul></li></ol>",
                     "<blockquote>quoted</blockquote>", "<td><code>2</code></td>", "x = \"&lt;b&gt;\"", "<p>tail</p>"):
            self.assertIn(part, html)
        self.assertEqual(page.run("turn.view.root.querySelectorAll('img, script').length"), 0)
        self.assertEqual(page.run("[...turn.view.root.querySelectorAll('a')].map(a => a.protocol)"), ["https:"] * 2)
        self.assertEqual(page.run("turn.view.root.querySelectorAll('.code-block button').length"), 2)
        # A text that repeats marks costs no more than its length.
        for mark in ("**a", "`", "*", "[", "__a ", "> ", "- ", "#", "|-", "http://", "~~a ", "` `` "):
            page.run("""(async () => {
              const { MarkdownView } = await import("/page/markdown.js");
              new MarkdownView("markdown").update(%s.repeat(30000));
            })()""" % json.dumps(mark))
        self.clean(page)

    def test_narrow_and_dark(self):
        page = self.browser(width=360, height=740)
        self.ask(page, "Repeat after me: 91c8b338-9f4a-f1d8")
        overflow = "document.documentElement.scrollWidth > 360 || document.getElementById('log').scrollWidth > " \
                   "document.getElementById('log').clientWidth"
        self.assertFalse(page.run(overflow))
        self.shot(page, "narrow")
        self.assertTrue(page.run("document.getElementById('side').inert"))
        page.click("#side-toggle")
        box = page.run("document.getElementById('side').getBoundingClientRect().toJSON()")
        self.assertEqual((box["left"], box["right"], box["bottom"]), (0, 360, 740))
        self.assertFalse(page.run(overflow))
        self.shot(page, "narrow-side")
        page.press("Escape")
        self.assertTrue(page.run("document.getElementById('side').inert"))
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.run(ground)
        page.scheme(dark=True)
        dark = page.run(ground)
        self.assertNotEqual(dark, light)
        page.click("#theme")  # as the system -> light -> dark
        self.assertEqual(page.run(ground), light)
        page.click("#theme")
        self.assertEqual(page.run(ground), dark)
        page.open(self.url)
        page.scheme(dark=False)
        self.assertEqual(page.run(ground), dark)  # it is remembered
        self.clean(page)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: no Chromium is installed (Debian: apt-get install chromium)")
        sys.exit(77)
    unittest.main()
