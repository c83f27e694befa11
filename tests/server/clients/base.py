"""One server for all tests of a file, and the SDK clients that talk to it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from support import Server, eventually  # noqa: E402

MODEL = "nano"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
TIME = {"type": "function", "function": {
    "name": "get_time", "description": "Get the local time",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}
PERSON = "Fill in a JSON object with the keys name, age: Hugo is 10 years old."


def user(text):
    return [{"role": "user", "content": text}]


class ClientTest(unittest.TestCase):
    ARGUMENTS = ["--served-model-name", MODEL, "--api-key", "sk-test", "--max-model-len", 2048, "--log-level", "error"]

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGUMENTS)
        cls.addClassCleanup(cls.server.__exit__)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        code = cls.server.terminate()
        assert code == 0, f"the server ended with {code}: {cls.server.log()}"

    def openai(self, **options):
        import openai
        client = openai.OpenAI(**{"base_url": self.url + "/v1", "api_key": "sk-test", "max_retries": 0, "timeout": 60,
                                  **options})
        self.addCleanup(client.close)
        return client

    def anthropic(self, **options):
        import anthropic
        client = anthropic.Anthropic(**{"base_url": self.url, "api_key": "sk-test", "max_retries": 0, "timeout": 60,
                                        **options})
        self.addCleanup(client.close)
        return client

    def wait_idle(self):
        def idle():
            metrics = self.server.metrics()
            return (metrics["fathom:num_requests_running"], metrics["fathom:num_requests_waiting"],
                    metrics["fathom:kv_cache_pages_used"]) == (0, 0, 0)
        eventually(idle, "an idle engine")
