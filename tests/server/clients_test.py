"""The SDKs of OpenAI and Anthropic against the server, unchanged but for the base URL."""
import os
import pathlib
import subprocess
import sys
import unittest

PYTHON = pathlib.Path(os.environ["FATHOM"]).resolve().parent / "clients" / "bin" / "python"
SKIPPED = 77
try:
    import anthropic
    import openai
    import pydantic
except ImportError:
    if not PYTHON.exists() or pathlib.Path(sys.prefix) == PYTHON.parent.parent:
        print(f"skipped: openai and anthropic are not installed in {PYTHON.parent.parent}; "
              "scripts/setup_clients.sh does that where PyPI can be reached.")
        sys.exit(SKIPPED)
    sys.exit(subprocess.run([PYTHON, "-B", *sys.argv]).returncode)

from support import TIMEOUT, Server  # noqa: E402

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"],
         "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "forecast", "description": "Get the weather",
                                           "parameters": PLACE, "strict": True}}]
WEATHER = [{"role": "user", "content": "How is the weather in Rome?"}]
REVERSE = [{"role": "user", "content": "Reverse: spring"}]


class Pair(pydantic.BaseModel):
    a: int
    b: str


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--served-model-name", "nano", "--api-key", "secret")
        base = f"http://127.0.0.1:{cls.server.port}"
        cls.openai = openai.OpenAI(base_url=base + "/v1", api_key="secret", max_retries=0, timeout=TIMEOUT)
        cls.anthropic = anthropic.Anthropic(base_url=base, api_key="secret", max_retries=0, timeout=TIMEOUT)

    @classmethod
    def tearDownClass(cls):
        cls.openai.close()
        cls.anthropic.close()
        cls.server.__exit__()


class OpenAi(WithServer):
    def chat(self, **fields):
        return self.openai.chat.completions.create(model="nano", temperature=0, **fields)

    def test_models(self):
        self.assertEqual([model.id for model in self.openai.models.list()], ["nano"])
        self.assertEqual(self.openai.models.retrieve("nano").id, "nano")

    def test_chat_whole_and_streamed(self):
        whole = self.chat(messages=REVERSE, logprobs=True, top_logprobs=2)
        self.assertEqual(whole.choices[0].message.content, "gnirps")
        self.assertEqual(len(whole.choices[0].logprobs.content), whole.usage.completion_tokens)
        text, usage = "", None
        for chunk in self.chat(messages=REVERSE, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
        self.assertEqual((text, usage.total_tokens), ("gnirps", whole.usage.total_tokens))

    def test_tools_there_and_back(self):
        asked = self.chat(messages=WEATHER, tools=TOOLS)
        self.assertEqual(asked.choices[0].finish_reason, "tool_calls")
        message = asked.choices[0].message
        call = message.tool_calls[0]
        self.assertEqual((call.function.name, call.function.arguments), ("forecast", '{"place": "Rome"}'))
        answer = self.chat(messages=[*WEATHER, message.model_dump(exclude_none=True),
                                     {"role": "tool", "tool_call_id": call.id, "content": "sunny"}], tools=TOOLS)
        self.assertIn("sunny", answer.choices[0].message.content)
        with self.openai.chat.completions.stream(model="nano", messages=WEATHER, tools=TOOLS,
                                                 temperature=0) as stream:
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.tool_calls[0].function.parsed_arguments, {"place": "Rome"})
        forced = self.chat(messages=REVERSE, tools=TOOLS, tool_choice="required", max_tokens=200)
        self.assertEqual(forced.choices[0].message.tool_calls[0].function.name, "forecast")

    def test_parse_helper(self):
        parsed = self.openai.chat.completions.parse(model="nano", messages=REVERSE, response_format=Pair,
                                                    temperature=0, max_tokens=300)
        self.assertIsInstance(parsed.choices[0].message.parsed, Pair)
        parsed = self.openai.responses.parse(model="nano", input="Reverse: spring", text_format=Pair,
                                             temperature=0, max_output_tokens=300)
        self.assertIsInstance(parsed.output_parsed, Pair)

    def test_responses(self):
        whole = self.openai.responses.create(model="nano", input="Reverse: spring", temperature=0)
        self.assertEqual((whole.output_text, whole.status), ("gnirps", "completed"))
        flat = [{"type": "function", **TOOLS[0]["function"]}]
        with self.openai.responses.stream(model="nano", input=WEATHER, tools=flat, temperature=0) as stream:
            self.assertEqual([event.type for event in stream][-1], "response.completed")
            call = stream.get_final_response().output[0]
        self.assertEqual((call.name, call.parsed_arguments), ("forecast", {"place": "Rome"}))

    def test_completions(self):
        done = self.openai.completions.create(model="nano", prompt=["Reverse: spring"], echo=True, logprobs=2,
                                              max_tokens=3)
        self.assertTrue(done.choices[0].text.startswith("Reverse: spring"))
        self.assertIsNone(done.choices[0].logprobs.token_logprobs[0])

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.openai.chat.completions.create(model="nano", messages=REVERSE, temperature=9)
        self.assertEqual(wrong.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError) as unknown:
            self.openai.chat.completions.create(model="gpt", messages=REVERSE)
        self.assertEqual(unknown.exception.code, "model_not_found")
        with self.assertRaises(openai.AuthenticationError):
            self.openai.with_options(api_key="wrong").models.list()


class Anthropic(WithServer):
    def test_messages_whole_and_streamed(self):
        asked = {"model": "nano", "max_tokens": 50, "messages": REVERSE, "extra_body": {"temperature": 0}}
        whole = self.anthropic.messages.create(**asked)
        self.assertEqual((whole.content[0].text, whole.stop_reason), ("gnirps", "end_turn"))
        with self.anthropic.messages.stream(**asked) as stream:
            self.assertEqual("".join(stream.text_stream), "gnirps")
            self.assertEqual(stream.get_final_message().usage.output_tokens, whole.usage.output_tokens)
        counted = self.anthropic.messages.count_tokens(model="nano", messages=REVERSE)
        self.assertEqual(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)

    def test_tools_there_and_back(self):
        tools = [{"name": "forecast", "description": "Get the weather", "input_schema": PLACE}]
        fields = {"model": "nano", "max_tokens": 80, "tools": tools, "extra_body": {"temperature": 0}}
        with self.anthropic.messages.stream(messages=WEATHER, **fields) as stream:
            message = stream.get_final_message()
        self.assertEqual(message.stop_reason, "tool_use")
        use = message.content[0]
        self.assertEqual((use.name, use.input), ("forecast", {"place": "Rome"}))
        answer = self.anthropic.messages.create(
            messages=[*WEATHER, {"role": "assistant", "content": [block.model_dump() for block in message.content]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                                    "content": "sunny"}]}], **fields)
        self.assertIn("sunny", answer.content[0].text)

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError):
            self.anthropic.messages.create(model="nano", max_tokens=0, messages=REVERSE)
        with self.assertRaises(anthropic.NotFoundError):
            self.anthropic.messages.create(model="claude", max_tokens=5, messages=REVERSE)


if __name__ == "__main__":
    unittest.main()
