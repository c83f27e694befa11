"""The openai SDK: tool calls chosen by the model, required and named, streamed and whole, and their results."""
import json
import unittest

import jsonschema
import openai
from base import MODEL, TIME, WEATHER, ClientTest, user

ROME = "How is the weather in Rome?"


class Tools(ClientTest):
    def chat(self, text, **fields):
        return self.openai().chat.completions.create(
            model=MODEL, messages=user(text), **{"temperature": 0, "tools": [WEATHER], **fields})

    def check_rome(self, answer):
        choice = answer.choices[0]
        call, = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name, json.loads(call.function.arguments)),
                         ("function", "get_weather", {"city": "Rome"}))
        self.assertTrue(call.id)
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertFalse(choice.message.content)
        return call

    def test_choices_of_tools(self):
        named = {"type": "function", "function": {"name": "get_weather"}}
        for tool_choice in ("auto", "required", named):
            with self.subTest(tool_choice):
                self.check_rome(self.chat(ROME, tool_choice=tool_choice))
        self.check_rome(self.chat(ROME))

    def test_none_calls_nothing(self):
        answer = self.chat(ROME, tool_choice="none", max_tokens=40)
        self.assertIsNone(answer.choices[0].message.tool_calls)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))

    def test_required_and_named_hold_against_the_model(self):
        for seed in range(4):
            for tools, choice, names in [
                    ([WEATHER, TIME], "required", {"get_weather", "get_time"}),
                    ([WEATHER, TIME], {"type": "function", "function": {"name": "get_time"}}, {"get_time"})]:
                answer = self.chat("Reverse: spring", tools=tools, tool_choice=choice, temperature=1.3, seed=seed,
                                   max_tokens=400)
                if answer.choices[0].finish_reason == "length":
                    continue  # cut inside of an argument: then it is text
                for call in answer.choices[0].message.tool_calls:
                    self.assertIn(call.function.name, names)
                    tool = next(t for t in tools if t["function"]["name"] == call.function.name)
                    jsonschema.validate(json.loads(call.function.arguments), tool["function"]["parameters"])

    def test_streamed_calls(self):
        for tool_choice in ("auto", "required"):
            names, arguments, ids, ends, content = [], "", [], [], ""
            for chunk in self.chat(ROME, tool_choice=tool_choice, stream=True):
                choice = chunk.choices[0]
                content += choice.delta.content or ""
                ends += [choice.finish_reason] if choice.finish_reason else []
                for call in choice.delta.tool_calls or []:
                    self.assertEqual(call.index, 0)
                    ids += [call.id] if call.id else []
                    names += [call.function.name] if call.function.name else []
                    arguments += call.function.arguments or ""
            self.assertEqual((names, json.loads(arguments), len(ids), ends, content),
                             (["get_weather"], {"city": "Rome"}, 1, ["tool_calls"], ""))

    def test_the_stream_helper_collects_calls(self):
        with self.openai().chat.completions.stream(model=MODEL, messages=user(ROME), tools=[WEATHER],
                                                   temperature=0) as stream:
            kinds = {event.type for event in stream}
            self.check_rome(stream.get_final_completion())
        self.assertIn("tool_calls.function.arguments.done", kinds)

    def test_the_result_goes_back(self):
        call = self.check_rome(self.chat(ROME))
        messages = user(ROME) + [
            {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": '{"weather": "sunny"}'}]
        answer = self.openai().chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER], temperature=0)
        self.assertTrue(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_a_call_that_is_cut_is_text(self):
        whole = self.chat(ROME)
        for limit in range(1, whole.usage.completion_tokens):
            answer = self.chat(ROME, max_tokens=limit)
            self.assertEqual((answer.choices[0].finish_reason, answer.usage.completion_tokens), ("length", limit))
            for call in answer.choices[0].message.tool_calls or []:
                json.loads(call.function.arguments)  # what is called a call is a whole one
            streamed = "".join(chunk.choices[0].delta.content or "" for chunk in
                               self.chat(ROME, max_tokens=limit, stream=True))
            self.assertEqual(streamed, answer.choices[0].message.content or "")

    def test_strict_tools_and_the_parse_helper(self):
        parameters = {**WEATHER["function"]["parameters"], "additionalProperties": False}
        strict = {"type": "function", "function": {**WEATHER["function"], "strict": True, "parameters": parameters}}
        answer = self.openai().chat.completions.parse(model=MODEL, messages=user(ROME), tools=[strict], temperature=0)
        self.assertEqual(answer.choices[0].message.tool_calls[0].function.parsed_arguments, {"city": "Rome"})

    def test_unknown_names_are_refused(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(ROME, tool_choice={"type": "function", "function": {"name": "no_such"}})
        self.assertIn("no_such", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
