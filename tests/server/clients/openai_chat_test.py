"""The openai SDK, unchanged: chat, streams, choices, stops, log-probabilities, structured answers."""
import json
import math
import unittest

import jsonschema
import pydantic
from base import MODEL, PERSON, SCHEMA, ClientTest, user

REPEAT = "Repeat after me: 91c8b338-9f4a-f1d8"
SORT = "Sort these words: tensor, fork, hoowom, sand"
SORTED = "fork, hoowom, sand, tensor"


class Person(pydantic.BaseModel):
    name: str
    age: int


class Chat(ClientTest):
    def chat(self, text, **fields):
        return self.openai().chat.completions.create(model=MODEL, messages=user(text), **{"temperature": 0, **fields})

    def test_models(self):
        client = self.openai()
        self.assertEqual([model.id for model in client.models.list()], [MODEL])
        self.assertEqual(client.models.retrieve(MODEL).id, MODEL)

    def test_an_answer(self):
        answer = self.chat(REPEAT)
        self.assertEqual(answer.choices[0].message.content, "91c8b338-9f4a-f1d8")
        self.assertEqual((answer.choices[0].finish_reason, answer.choices[0].message.role), ("stop", "assistant"))
        self.assertEqual((answer.object, answer.model), ("chat.completion", MODEL))
        self.assertRegex(answer.system_fingerprint, "^fp_[0-9a-f]{16}$")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_two_turns(self):
        messages = user(SORT) + [{"role": "assistant", "content": SORTED}] + user("Which word is last?")
        answer = self.openai().chat.completions.create(model=MODEL, messages=messages, temperature=0)
        self.assertEqual(answer.choices[0].message.content, "tensor")

    def test_a_stream_is_the_answer(self):
        whole = self.chat(SORT)
        chunks = list(self.chat(SORT, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(text, SORTED)
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
        self.assertEqual(ends, ["stop"])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual([chunk.usage for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
        self.assertEqual((chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens),
                         (whole.usage.prompt_tokens, whole.usage.completion_tokens))

    def test_the_stream_helper(self):
        with self.openai().chat.completions.stream(model=MODEL, messages=user(SORT), temperature=0) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, SORTED)
        self.assertIn("content.delta", kinds)
        self.assertIn("content.done", kinds)

    def test_choices_and_seeds(self):
        hot = {"temperature": 2.0, "max_tokens": 30, "n": 4}
        first, again, other = (self.chat("?", seed=seed, **hot) for seed in (5, 5, 6))
        texts = [[choice.message.content for choice in answer.choices] for answer in (first, again, other)]
        self.assertEqual([choice.index for choice in first.choices], [0, 1, 2, 3])
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertGreater(len(set(texts[0])), 1)
        streamed = [""] * 4
        for chunk in self.chat("?", seed=5, stream=True, **hot):
            for choice in chunk.choices:
                streamed[choice.index] += choice.delta.content or ""
        self.assertEqual(streamed, texts[0])

    def test_a_stop_across_tokens_never_shows(self):
        tokens = [entry.token for entry in self.chat(SORT, logprobs=True).choices[0].logprobs.content]
        stop = SORTED[3:8]  # "k, ho"
        self.assertFalse(any(stop in token for token in tokens), tokens)
        answer = self.chat(SORT, stop=[stop, "never"])
        self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), ("for", "stop"))
        pieces = [chunk.choices[0].delta.content or "" for chunk in self.chat(SORT, stop=stop, stream=True)]
        self.assertEqual("".join(pieces), "for")
        # What only looked like the beginning of a stop comes out in the end.
        self.assertEqual(self.chat(SORT, stop="tensor and more").choices[0].message.content, SORTED)

    def test_lengths(self):
        for field in ("max_tokens", "max_completion_tokens"):
            answer = self.chat(SORT, **{field: 3})
            self.assertEqual((answer.choices[0].finish_reason, answer.usage.completion_tokens), ("length", 3))

    def test_logprobs(self):
        answer = self.chat(REPEAT, logprobs=True, top_logprobs=5)
        entries = answer.choices[0].logprobs.content
        self.assertEqual(len(entries), answer.usage.completion_tokens)
        said = b"".join(bytes(entry.bytes) for entry in entries).decode()
        self.assertTrue(said.startswith("91c8b338-9f4a-f1d8"), said)
        for entry in entries:
            self.assertEqual(len(entry.top_logprobs), 5)
            values = [top.logprob for top in entry.top_logprobs]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertEqual((entry.token, entry.logprob), (entry.top_logprobs[0].token, values[0]))  # greedy
            self.assertLessEqual(sum(math.exp(value) for value in values), 1.0001)
        chunks = list(self.chat(REPEAT, logprobs=True, top_logprobs=5, stream=True))
        streamed = [entry for chunk in chunks for choice in chunk.choices if choice.logprobs
                    for entry in choice.logprobs.content]
        self.assertEqual([e.model_dump() for e in streamed], [e.model_dump() for e in entries])

    def test_a_schema_holds_every_answer(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
        answer = self.chat(PERSON, response_format=form)
        self.assertEqual(json.loads(answer.choices[0].message.content), {"name": "Hugo", "age": 10})
        for seed in range(8):  # a question that has nothing to do with it, and a temperature that wanders
            answer = self.chat(REPEAT, response_format=form, temperature=1.5, seed=seed, max_tokens=400)
            if answer.choices[0].finish_reason == "stop":
                jsonschema.validate(json.loads(answer.choices[0].message.content), SCHEMA)
            else:
                self.assertEqual(answer.choices[0].finish_reason, "length")
        answer = self.chat(PERSON, response_format={"type": "json_object"})
        self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)

    def test_parse(self):
        answer = self.openai().chat.completions.parse(model=MODEL, messages=user(PERSON), temperature=0,
                                                      response_format=Person)
        self.assertEqual(answer.choices[0].message.parsed, Person(name="Hugo", age=10))
        with self.openai().chat.completions.stream(model=MODEL, messages=user(PERSON), temperature=0,
                                                   response_format=Person) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed, Person(name="Hugo", age=10))

    def test_extensions_pass_through(self):
        answer = self.chat(REPEAT, extra_body={"top_k": 1, "min_p": 0.1, "return_token_ids": True, "ignore_eos": True},
                           max_tokens=30)
        self.assertEqual(len(answer.choices[0].token_ids), 30)
        raw = self.openai().chat.completions.with_raw_response.create(
            model=MODEL, messages=user(REPEAT), max_tokens=1, extra_body={"no_such_field": 1})
        self.assertEqual(raw.headers["x-fathom-ignored-fields"], "no_such_field")
        raw = self.openai().chat.completions.with_raw_response.create(
            model=MODEL, messages=user(REPEAT), max_tokens=1, extra_headers={"X-Request-Id": "mine-1"})
        self.assertEqual(raw.headers["x-request-id"], "mine-1")


if __name__ == "__main__":
    unittest.main()
