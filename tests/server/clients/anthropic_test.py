"""The anthropic SDK, unchanged: messages, streams, tools, counting, errors."""
import unittest

import anthropic
from base import MODEL, ClientTest, user

ROME = "How is the weather in Rome?"
TOOL = {"name": "get_weather", "description": "Get the weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


class Messages(ClientTest):
    def create(self, text, **fields):
        return self.anthropic().messages.create(
            model=MODEL, messages=user(text), **{"max_tokens": 100, "extra_body": {"temperature": 0}, **fields})

    def test_an_answer(self):
        answer = self.create("Repeat after me: apple")
        self.assertEqual([(block.type, block.text) for block in answer.content], [("text", "apple")])
        self.assertEqual((answer.stop_reason, answer.role, answer.type), ("end_turn", "assistant", "message"))
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_streams(self):
        with self.anthropic().messages.stream(model=MODEL, max_tokens=100, messages=user("Reverse: spring"),
                                              extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, "gnirps")
        self.assertEqual(final.content[0].text, "gnirps")
        self.assertEqual(final.stop_reason, "end_turn")
        kinds = [event.type for event in self.create("Reverse: spring", stream=True)]
        self.assertEqual((kinds[0], kinds[-1]), ("message_start", "message_stop"))
        frame = ["content_block_start", "content_block_stop", "message_delta"]
        self.assertEqual([kind for kind in kinds if kind in frame], frame)

    def test_stops_and_lengths(self):
        answer = self.create("Sort these words: tensor, fork, hoowom, sand", stop_sequences=[", sa"])
        self.assertEqual((answer.content[0].text, answer.stop_reason, answer.stop_sequence),
                         ("fork, hoowom", "stop_sequence", ", sa"))
        answer = self.create("Sort these words: tensor, fork, hoowom, sand", max_tokens=2)
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 2))

    def test_tools(self):
        for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "get_weather"}):
            with self.subTest(choice):
                answer = self.create(ROME, tools=[TOOL], tool_choice=choice)
                call, = answer.content
                self.assertEqual((call.type, call.name, call.input, answer.stop_reason),
                                 ("tool_use", "get_weather", {"city": "Rome"}, "tool_use"))
        messages = user(ROME) + [
            {"role": "assistant", "content": [call.model_dump(include={"type", "id", "name", "input"})]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}]
        answer = self.anthropic().messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[TOOL],
                                                  extra_body={"temperature": 0})
        self.assertEqual(answer.stop_reason, "end_turn")
        self.assertEqual(answer.content[0].type, "text")

    def test_streamed_tools(self):
        with self.anthropic().messages.stream(model=MODEL, max_tokens=100, messages=user(ROME), tools=[TOOL],
                                              extra_body={"temperature": 0}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_message()
        self.assertIn("input_json", kinds)
        self.assertEqual((final.content[0].name, final.content[0].input), ("get_weather", {"city": "Rome"}))

    def test_counting(self):
        client = self.anthropic()
        fields = {"model": MODEL, "messages": user(ROME), "system": "Be brief."}
        for more in ({}, {"tools": [TOOL]}):
            counted = client.messages.count_tokens(**fields, **more).input_tokens
            usage = client.messages.create(max_tokens=1, **fields, **more).usage
            self.assertEqual(usage.input_tokens + (usage.cache_read_input_tokens or 0), counted)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.anthropic().messages.create(model="no-such-model", max_tokens=1, messages=user("a"))
        with self.assertRaises(anthropic.AuthenticationError):
            self.anthropic(api_key="sk-wrong").messages.create(model=MODEL, max_tokens=1, messages=user("a"))
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.anthropic().messages.create(model=MODEL, max_tokens=0, messages=user("a"))
        self.assertIn("max_tokens", str(caught.exception))
        self.assertEqual(caught.exception.body["type"], "error")

    def test_a_stream_that_is_left(self):
        stream = self.create("Repeat after me: apple", stream=True, max_tokens=1900,
                             extra_body={"ignore_eos": True, "temperature": 1.0})
        next(iter(stream))
        stream.close()
        self.wait_idle()


if __name__ == "__main__":
    unittest.main()
