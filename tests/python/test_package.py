"""The Python package over a tiny model: answers, streams, text, steps, errors."""
import ctypes
import gc
import os
import threading
import unittest

import fathom

MODEL = os.environ["FATHOM_TEST_MODEL"]
OPTIONS = {"max_num_seqs": 4, "max_num_batched_tokens": 32, "kv_memory_bytes": 8_000_000, "max_model_len": 256}


class LlmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = fathom.LLM(MODEL, **OPTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_generate_ids_and_text(self):
        params = fathom.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        one = self.llm.generate([5, 6, 7], params)
        self.assertEqual(len(one.token_ids), 8)
        self.assertEqual(one.finish_reason, "length")
        self.assertEqual((one.usage.prompt_tokens, one.usage.completion_tokens), (3, 8))
        several = self.llm.generate([[5, 6, 7], "Hello there", [9]], params)
        self.assertEqual(several[0].token_ids, one.token_ids)
        self.assertTrue(all(len(output.token_ids) == 8 for output in several))
        self.assertEqual(self.llm.generate("Hello there", params).token_ids, several[1].token_ids)
        self.assertEqual(self.llm.generate([], params), [])
        self.assertEqual(self.llm.detokenize(one.token_ids), one.text)

    def test_params_for_each_prompt(self):
        outputs = self.llm.generate([[1], [2]], [fathom.SamplingParams(max_tokens=2, ignore_eos=True),
                                                 fathom.SamplingParams(max_tokens=5, ignore_eos=True)])
        self.assertEqual([len(output.token_ids) for output in outputs], [2, 5])
        with self.assertRaises(ValueError):
            self.llm.generate([[1], [2]], [fathom.SamplingParams()])

    def test_seed_and_logprobs(self):
        params = fathom.SamplingParams(temperature=1.2, max_tokens=12, ignore_eos=True, logprobs=2)
        first = self.llm.generate([3, 4], params)
        self.assertEqual(len(first.logprobs), 12)
        self.assertTrue(all(len(top) == 2 for top in first.top_logprobs))
        params.seed = first.usage.seed
        again = self.llm.generate([3, 4], params)
        self.assertEqual((again.token_ids, again.logprobs), (first.token_ids, first.logprobs))

    def test_stream(self):
        params = fathom.SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
        chunks = list(self.llm.stream("Hello", params))
        whole = self.llm.generate("Hello", params)
        self.assertEqual(sum((chunk.token_ids for chunk in chunks), []), whole.token_ids)
        self.assertEqual("".join(chunk.text for chunk in chunks), whole.text)
        self.assertEqual([chunk.finish_reason for chunk in chunks], [None] * 5 + ["length"])

    def test_leaving_a_stream_cancels_it(self):
        before = self.llm.metrics["requests_cancelled"]
        for chunk in self.llm.stream([1, 2, 3], fathom.SamplingParams(max_tokens=250, ignore_eos=True)):
            break
        gc.collect()
        self.llm.generate([1], fathom.SamplingParams(max_tokens=2))
        self.assertEqual(self.llm.metrics["requests_cancelled"], before + 1)
        self.assertEqual(self.llm.metrics["kv_pages_used"], 0)

    def test_chat(self):
        messages = [{"role": "user", "content": "Hi"}]
        text = self.llm.apply_chat_template(messages)
        self.assertIn("Hi", text)
        params = fathom.SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
        answer = self.llm.chat(messages, params)
        self.assertEqual(len(answer.token_ids), 4)
        self.assertEqual(answer.usage.prompt_tokens, len(self.llm.tokenize(text)))
        self.assertEqual(self.llm.chat([messages, messages], params)[1].token_ids, answer.token_ids)
        streamed = list(self.llm.stream_chat(messages, params))
        self.assertEqual(sum((chunk.token_ids for chunk in streamed), []), answer.token_ids)

    def test_stop_string(self):
        params = fathom.SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
        text = self.llm.generate([5, 6, 7], params).text
        stop = text[len(text) // 2:][:3]
        params.stop = stop
        stopped = self.llm.generate([5, 6, 7], params)
        self.assertEqual(stopped.text, text[:text.index(stop)])
        self.assertEqual((stopped.finish_reason, stopped.stop_string), ("stop", stop))

    def test_errors_name_what_is_wrong(self):
        for prompt, params, part in [([600], {}, "600"), ([], {}, "no tokens"),
                                     ([1], {"top_p": 3}, "top_p"), ([1], {"max_tokens": 5000}, "5000")]:
            with self.assertRaises(fathom.FathomError) as raised:
                list(self.llm.stream(prompt, fathom.SamplingParams(**params)))
            self.assertEqual(raised.exception.status, "invalid_argument")
            self.assertIn(part, str(raised.exception))
        with self.assertRaises(fathom.FathomError) as raised:
            fathom.LLM("/no/such/folder")
        self.assertEqual(raised.exception.status, "not_found")
        with self.assertRaises(fathom.FathomError) as raised:
            fathom.LLM(MODEL, max_seqs=3)
        self.assertIn('"max_seqs"', str(raised.exception))
        with self.assertRaises(TypeError):
            self.llm.generate([["a"]])
        for wrong in (2**31, 2**32 + 1, 2**64, -2**40):  # the low bits would be some other token
            with self.assertRaises(ValueError):
                self.llm.generate([1, wrong])
        for params in ({"temperature": float("nan")}, {"logit_bias": {5: float("inf")}}):
            with self.assertRaises(ValueError):
                self.llm.generate([1], fathom.SamplingParams(**params))
        with self.assertRaises(ValueError):
            fathom.LLM(MODEL + "\0x")

    def test_threads(self):
        params = fathom.SamplingParams(temperature=0.9, seed=5, max_tokens=20, ignore_eos=True)
        expected = [self.llm.generate([i, i + 1], params).token_ids for i in range(8)]
        results = [None] * 8

        def work(i):
            results[i] = self.llm.generate([i, i + 1], params).token_ids

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, expected)

    def test_choices_scores_and_the_prefix_cache(self):
        prompt = [7] * 40
        params = fathom.SamplingParams(seed=3, max_tokens=6, ignore_eos=True, logprobs=1)
        choices = self.llm.choices(prompt, 3, params, cache_salt="choices")
        self.assertEqual(choices[0].usage.seed, 3)
        self.assertEqual([choice.usage.cached_prompt_tokens for choice in choices], [0, 32, 32])
        for choice in choices:
            params.seed = choice.usage.seed
            again = self.llm.generate(prompt, params)
            self.assertEqual((again.token_ids, again.logprobs), (choice.token_ids, choice.logprobs))
        self.assertEqual(self.llm.generate(prompt, params).usage.cached_prompt_tokens, 32)

        score = fathom.SamplingParams(max_tokens=0, prompt_logprobs=1)
        scored = self.llm.generate(prompt + again.token_ids, score)
        self.assertEqual((scored.token_ids, scored.finish_reason), ([], "length"))
        self.assertIsNone(scored.prompt_logprobs[0])
        self.assertEqual(scored.prompt_logprobs[40:], again.logprobs)
        self.assertEqual(scored.prompt_top_logprobs[40:], again.top_logprobs)
        with self.assertRaises(fathom.FathomError):
            self.llm.choices(prompt, 0)

    def test_timeout(self):
        params = fathom.SamplingParams(max_tokens=250, ignore_eos=True)
        with self.assertRaises(fathom.FathomError) as raised:
            self.llm.generate([1, 2, 3], params, timeout=1e-6)
        self.assertEqual(raised.exception.status, "timeout")

    def test_info_and_closing(self):
        self.assertEqual(self.llm.info["max_model_len"], 256)
        with fathom.LLM(MODEL, **OPTIONS) as llm:
            stream = llm.stream([1, 2], fathom.SamplingParams(max_tokens=200, ignore_eos=True))
            next(stream)
        self.assertEqual(list(stream)[-1].finish_reason, "cancelled")
        with self.assertRaises(fathom.FathomError):
            llm.generate([1])
        llm.close()


class TextTest(unittest.TestCase):
    def test_round_trip(self):
        with fathom.Text(MODEL) as text:
            sample = "Grüße, 世界 🙂 12345\n"
            ids = text.tokenize(sample)
            self.assertEqual(text.detokenize(ids), sample)
            decoder = text.decoder()
            self.assertEqual("".join(decoder.push([i]) for i in ids) + decoder.finish(), sample)
            self.assertEqual(text.info["vocab_size"], 512)
            bos = text.info["bos_token_id"]
            name = text.detokenize([bos], skip_special_tokens=False)
            self.assertEqual(text.tokenize(name), [bos])
            self.assertNotIn(bos, text.tokenize(name, parse_special=False))
        with self.assertRaises(fathom.FathomError):
            fathom.Text("/no/such/folder")

    def test_a_closed_text_raises(self):
        text = fathom.Text(MODEL)
        decoder = text.decoder()
        text.close()
        text.close()
        for use in (lambda: text.tokenize("a"), lambda: text.detokenize([5]), lambda: text.info, text.decoder,
                    text.parser, lambda: decoder.push([5]), decoder.finish,
                    lambda: text.apply_chat_template([{"role": "user", "content": "a"}])):
            with self.assertRaises(fathom.FathomError) as raised:
                use()
            self.assertEqual(raised.exception.status, "unavailable")

    def test_output_parser(self):
        with fathom.Text(MODEL) as text:
            parser = text.parser()
        events = parser.feed("Hello ") + parser.feed("there") + parser.finish()
        self.assertEqual({event["kind"] for event in events}, {"content"})
        self.assertEqual("".join(event["text"] for event in events), "Hello there")


class ModelTest(unittest.TestCase):
    def test_any_split_gives_the_same_bits(self):
        with fathom.Model(MODEL, threads=2) as model:
            group, = model.kv_layout
            vocab = model.info["vocab_size"]
            tokens = [(i * 37 + 5) % 500 for i in range(21)]

            def logits(page_size, pages, cuts):
                stride = page_size * group.bytes_per_entry
                memory = ctypes.create_string_buffer(stride * 8 + 64)
                base = (ctypes.addressof(memory) + 63) // 64 * 64
                kv = fathom.KvMemory(base, 8, page_size, stride)
                out = (ctypes.c_float * vocab)()
                for begin, end in zip([0] + cuts, cuts + [len(tokens)]):
                    count = end - begin
                    model.step(tokens[begin:end], list(range(begin, end)), [0] * count, [count - 1],
                               [fathom.PageTable(pages, [0, len(pages)])], [kv], ctypes.addressof(out))
                return bytes(out)

            whole = logits(8, [5, 1, 7], [])
            self.assertEqual(logits(16, [3, 0], [1, 9, 20]), whole)
            with self.assertRaises(fathom.FathomError):
                logits(8, [5, 1], [])


if __name__ == "__main__":
    unittest.main()
