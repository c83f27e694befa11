"""The openai SDK: completions with token ids and echo, Responses, errors, retries, timeouts, streams that are left."""
import json
import math
import unittest

import openai
import pydantic
from base import MODEL, PERSON, SCHEMA, ClientTest, eventually, user

ROME = "How is the weather in Rome?"


class Person(pydantic.BaseModel):
    name: str
    age: int


class Completions(ClientTest):
    def complete(self, prompt, **fields):
        fields = {"temperature": 0, "max_tokens": 8, **fields}
        return self.openai().completions.create(model=MODEL, prompt=prompt, **fields)

    def ids(self, text):
        return self.server.post("/tokenize", {"model": MODEL, "prompt": text},
                                {"Authorization": "Bearer sk-test"}).json()["tokens"]

    def test_token_ids_are_the_text(self):
        text = "Repeat after me: apple"
        ids = self.ids(text)
        answers = self.complete([ids, ids[:3]]).choices
        self.assertEqual([choice.index for choice in answers], [0, 1])
        self.assertEqual(answers[0].text, self.complete(text).choices[0].text)
        self.assertEqual(answers[0].text, self.complete(ids).choices[0].text)
        self.assertEqual(answers[1].text, self.complete([ids[:3]]).choices[0].text)

    def test_streams(self):
        whole = self.complete("one two three", n=2, temperature=1.2, seed=3)
        texts = ["", ""]
        for chunk in self.complete("one two three", n=2, temperature=1.2, seed=3, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [choice.text for choice in whole.choices])

    def test_echo_scores_the_prompt(self):
        """What an evaluation harness does: log-likelihoods of a continuation from echo and logprobs."""
        text = "Repeat after me: apple"
        scored = self.complete(text, echo=True, logprobs=1, max_tokens=0).choices[0]
        marks = scored.logprobs
        self.assertEqual(scored.text, text)
        self.assertIn(text, "".join(marks.tokens))
        self.assertIsNone(marks.token_logprobs[0])
        self.assertEqual(len({len(marks.tokens), len(marks.token_logprobs), len(marks.text_offset),
                              len(marks.top_logprobs)}), 1)
        for value, top in zip(marks.token_logprobs[1:], marks.top_logprobs[1:]):
            self.assertLessEqual(value, max(top.values()))
        # The score of a greedy continuation is what it had when it was generated.
        ids = self.ids("<｜User｜>Repeat after me: apple<｜Assistant｜>")
        made = self.complete(ids, logprobs=1, max_tokens=4, extra_body={"return_token_ids": True, "ignore_eos": True})
        more = made.choices[0].token_ids
        again = self.complete(ids + more, echo=True, logprobs=1, max_tokens=0).choices[0].logprobs
        self.assertEqual(again.token_logprobs[-4:], made.choices[0].logprobs.token_logprobs)
        self.assertTrue(all(math.isfinite(value) for value in again.token_logprobs[1:]))


class Responses(ClientTest):
    def test_an_answer(self):
        answer = self.openai().responses.create(model=MODEL, input="Repeat after me: apple", temperature=0)
        self.assertEqual((answer.output_text, answer.status), ("apple", "completed"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)

    def test_streams(self):
        kinds, text = [], ""
        for event in self.openai().responses.create(model=MODEL, input="Reverse: spring", temperature=0, stream=True):
            kinds.append(event.type)
            text += event.delta if event.type == "response.output_text.delta" else ""
        self.assertEqual(text, "gnirps")
        self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
        with self.openai().responses.stream(model=MODEL, input="Reverse: spring", temperature=0) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().output_text, "gnirps")

    def test_tools(self):
        tool = {"type": "function", "name": "get_weather", "description": "Get the weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
        client = self.openai()
        answer = client.responses.create(model=MODEL, input=ROME, tools=[tool], temperature=0)
        call, = [item for item in answer.output if item.type == "function_call"]
        self.assertEqual((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Rome"}))
        events = list(client.responses.create(model=MODEL, input=ROME, tools=[tool], temperature=0, stream=True))
        done = [e for e in events if e.type == "response.function_call_arguments.done"]
        self.assertEqual(json.loads(done[0].arguments), {"city": "Rome"})
        history = [{"role": "user", "content": ROME},
                   {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
                   {"type": "function_call_output", "call_id": call.call_id, "output": '{"weather": "sunny"}'}]
        self.assertTrue(client.responses.create(model=MODEL, input=history, tools=[tool], temperature=0).output_text)

    def test_forms(self):
        form = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}}
        answer = self.openai().responses.create(model=MODEL, input=PERSON, text=form, temperature=0)
        self.assertEqual(json.loads(answer.output_text), {"name": "Hugo", "age": 10})
        parsed = self.openai().responses.parse(model=MODEL, input=PERSON, text_format=Person, temperature=0)
        self.assertEqual(parsed.output_parsed, Person(name="Hugo", age=10))

    def test_state_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai().responses.create(model=MODEL, input="a", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")


class Errors(ClientTest):
    def test_types_of_the_sdk(self):
        client = self.openai()
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=MODEL, messages=user("a"), temperature=9)
        self.assertEqual((caught.exception.param, caught.exception.type), ("temperature", "invalid_request_error"))
        with self.assertRaises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="no-such-model", messages=user("a"))
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.AuthenticationError):
            self.openai(api_key="sk-wrong").models.list()
        with self.assertRaises(openai.NotFoundError):
            client.embeddings.create(model=MODEL, input="a")
        with self.assertRaises(openai.BadRequestError) as caught:
            client.completions.create(model=MODEL, prompt="word " * 5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=MODEL, messages=user("a"), response_format={
                "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "no-such-type"}}})
        self.assertIn("no-such-type", str(caught.exception))

    def test_timeouts_cancel(self):
        with self.assertRaises(openai.APITimeoutError):
            self.openai(timeout=0.3).completions.create(model=MODEL, prompt="a", max_tokens=1900,
                                                        extra_body={"ignore_eos": True})
        self.wait_idle()

    def test_streams_that_are_left(self):
        before = self.server.metrics()['fathom:requests_cancelled_total']
        for _ in range(5):
            stream = self.openai().completions.create(model=MODEL, prompt="a", max_tokens=1900, stream=True,
                                                      extra_body={"ignore_eos": True})
            next(iter(stream))
            self.assertGreaterEqual(self.server.metrics()["fathom:num_requests_running"], 1)
            stream.close()
        self.wait_idle()
        self.assertEqual(self.server.metrics()['fathom:requests_cancelled_total'], before + 5)


class Limits(ClientTest):
    ARGUMENTS = [*ClientTest.ARGUMENTS, "--max-num-seqs", 1, "--max-queued-requests", 1]

    def test_429_and_retries(self):
        fields = {"model": MODEL, "prompt": "a", "max_tokens": 1900, "stream": True, "extra_body": {"ignore_eos": True}}
        streams = [self.openai().completions.create(**fields)]
        next(iter(streams[0]))
        auth = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
        body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 200, "ignore_eos": True})
        waiting = self.server.connect()
        waiting.request("POST", "/v1/completions", body, auth)
        eventually(lambda: self.server.metrics()["fathom:num_requests_waiting"] == 1)
        with self.assertRaises(openai.RateLimitError) as caught:
            self.openai().completions.create(model=MODEL, prompt="a", max_tokens=1)
        self.assertIn("retry-after", caught.exception.response.headers)
        # The SDK's own retries succeed as soon as there is room.
        streams[0].close()
        answer = self.openai(max_retries=10).completions.create(model=MODEL, prompt="a", max_tokens=1)
        self.assertEqual(answer.usage.completion_tokens, 1)
        self.assertEqual(waiting.getresponse().status, 200)
        waiting.close()
        self.wait_idle()

    def test_a_server_that_is_gone(self):
        with self.assertRaises(openai.APIConnectionError):
            self.openai(base_url="http://127.0.0.1:9/v1").models.list()


if __name__ == "__main__":
    unittest.main()
