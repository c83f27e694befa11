"""LLM: a loaded model that answers prompts; many at once, batched by the engine."""
import dataclasses
import json
from ctypes import POINTER, byref, c_uint64, cast, c_int32, c_void_p, sizeof, string_at
from typing import Dict, List, Optional

from . import _library as c
from ._library import FathomError, lib
from .sampling import SamplingParams
from .text import Text

_POLL_MS = 100  # how late Ctrl-C may be noticed


@dataclasses.dataclass
class Usage:
    prompt_tokens: int
    completion_tokens: int  # the token that stopped the request included
    preemptions: int
    queue_seconds: float  # submit to the first step
    prefill_seconds: float  # first step to first token
    decode_seconds: float  # first token to last
    seed: int  # that was used
    cached_prompt_tokens: int = 0  # of the prompt, found in the prefix cache


@dataclasses.dataclass
class Chunk:
    """What became known in one step of a request; the last one has finish_reason and usage."""

    text: str
    token_ids: List[int]
    logprobs: Optional[List[float]] = None  # of the chosen tokens, if asked for
    top_logprobs: Optional[List[Dict[int, float]]] = None  # of the n best at each of them
    finish_reason: Optional[str] = None  # "stop", "length", "cancelled"
    stop_string: Optional[str] = None
    stop_token_id: Optional[int] = None
    usage: Optional[Usage] = None
    # First chunk only, if asked for: of each prompt token but the first, whose entries are None.
    prompt_logprobs: Optional[List[Optional[float]]] = None
    prompt_top_logprobs: Optional[List[Optional[Dict[int, float]]]] = None


@dataclasses.dataclass
class RequestOutput:
    """A complete answer."""

    text: str = ""
    token_ids: List[int] = dataclasses.field(default_factory=list)
    logprobs: Optional[List[float]] = None
    top_logprobs: Optional[List[Dict[int, float]]] = None
    finish_reason: Optional[str] = None
    stop_string: Optional[str] = None
    stop_token_id: Optional[int] = None
    usage: Optional[Usage] = None
    prompt_logprobs: Optional[List[Optional[float]]] = None
    prompt_top_logprobs: Optional[List[Optional[Dict[int, float]]]] = None

    def add(self, chunk):
        self.text += chunk.text
        self.token_ids += chunk.token_ids
        if chunk.prompt_logprobs is not None:
            self.prompt_logprobs = chunk.prompt_logprobs
            self.prompt_top_logprobs = chunk.prompt_top_logprobs
        if chunk.logprobs is not None:
            self.logprobs = (self.logprobs or []) + chunk.logprobs
            self.top_logprobs = (self.top_logprobs or []) + chunk.top_logprobs
        if chunk.finish_reason is not None:
            self.finish_reason, self.usage = chunk.finish_reason, chunk.usage
            self.stop_string, self.stop_token_id = chunk.stop_string, chunk.stop_token_id


class _Queue:
    """Where the events of some requests arrive; going away cancels those that are not finished."""

    def __init__(self):
        self._handle = lib.fathom_queue_new()
        if not self._handle:
            raise MemoryError
        self.as_handle = c_void_p(self._handle)

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_queue_free(handle)

    __del__ = close

    def __iter__(self):
        """(number, chunk) of every event, until no request of the queue can send another."""
        while True:
            event = POINTER(c.Event)()
            status = c.call("fathom_queue_poll", self.as_handle, _POLL_MS, byref(event),
                            allowed=(c.OK, c.TIMEOUT, c.NOT_FOUND))
            if status == c.NOT_FOUND:
                return
            if status == c.TIMEOUT:
                continue
            try:
                number, chunk = event.contents.number, _chunk(event.contents)
            finally:
                lib.fathom_event_free(event)
            yield number, chunk


def _chunk(event):
    if event.error_status != c.OK:
        raise FathomError(lib.fathom_status_name(event.error_status).decode(),
                          event.error_message.decode("utf-8", "replace"))
    chunk = Chunk(string_at(event.text, event.text_bytes).decode("utf-8", "replace"),
                  event.token_ids[:event.token_count])
    if event.logprobs:
        chunk.logprobs = event.logprobs[:event.token_count]
        chunk.top_logprobs = _best(event.token_count, event.top_begin, event.top_ids, event.top_logprobs)
    if event.prompt_logprobs:
        count = event.prompt_logprob_count
        best = _best(count, event.prompt_top_begin, event.prompt_top_ids, event.prompt_top_logprobs)
        chunk.prompt_logprobs = [None] + event.prompt_logprobs[1:count]
        chunk.prompt_top_logprobs = [None] + best[1:]
    if event.finished:
        chunk.finish_reason = c.FINISH_REASONS[event.finish_reason]
        chunk.stop_string = event.stop_string.decode("utf-8", "replace") or None
        chunk.stop_token_id = event.stop_token_id if event.stop_token_id >= 0 else None
        chunk.usage = Usage(event.prompt_tokens, event.completion_tokens, event.preemptions,
                            event.queue_seconds, event.prefill_seconds, event.decode_seconds,
                            event.seed, event.cached_prompt_tokens)
    return chunk


def _best(count, begin, ids, logprobs):
    return [{ids[i]: logprobs[i] for i in range(begin[t], begin[t + 1])} for t in range(count)]


class LLM:
    """A loaded model. `model`: a folder, or "org/name[@revision]" in the Hugging Face cache.
    `options`: max_num_seqs, max_num_batched_tokens, block_size, kv_memory_bytes, max_model_len,
    prefix_caching, chat_template, threads, ... as in fathom_engine_open. May be used by several
    threads at once.

    Calls that give answers take `cache_salt` (a text: computed beginnings are shared only between
    requests with the same one) and `timeout` (seconds for a request; FathomError "timeout" when they
    are over)."""

    def __init__(self, model, **options):
        self._model = model
        self._chat_template = options.get("chat_template")
        self._text = None
        self._handle = c.open_handle("fathom_engine_open", c.path_string(model),
                                     json.dumps(options, default=str).encode())

    def close(self):
        """Gives the memory back. Answers that are being read end as cancelled."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_engine_close(handle)
        if getattr(self, "_text", None):
            self._text.close()

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Answers

    def generate(self, prompts, sampling_params=None, *, cache_salt=None, timeout=0):
        """Answers to prompts: a text, a list of token ids, or a list of either. `sampling_params`: one
        for all or a list. Returns a RequestOutput, or a list of them for a list."""
        single = isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], int))
        requests = [self._prompt_request(p) for p in ([prompts] if single else prompts)]
        outputs = self._run(requests, sampling_params, cache_salt, timeout)
        return outputs[0] if single else outputs

    def choices(self, prompt, n, sampling_params=None, *, cache_salt=None, timeout=0):
        """`n` answers to one prompt (text or token ids), which is computed once. Each has a seed of its
        own (usage.seed), with which it can be had again alone."""
        queue = _Queue()
        try:
            numbers = (c_uint64 * max(n, 1))()
            request = self._complete(self._prompt_request(prompt), sampling_params, cache_salt, timeout)
            c.call("fathom_engine_submit_n", self._engine(), queue.as_handle, byref(request), n, numbers)
            return self._collect(queue, list(numbers))
        finally:
            queue.close()

    def chat(self, messages, sampling_params=None, tools=None, *, cache_salt=None, timeout=0,
             **template_kwargs):
        """The answer to a conversation, or to each of a list of conversations."""
        single = len(messages) > 0 and isinstance(messages[0], dict)
        requests = [self._chat_request(m, tools, template_kwargs)
                    for m in ([messages] if single else messages)]
        outputs = self._run(requests, sampling_params, cache_salt, timeout)
        return outputs[0] if single else outputs

    def stream(self, prompt, sampling_params=None, *, cache_salt=None, timeout=0):
        """The answer to one prompt (text or token ids) as it comes: an iterator of Chunk. Leaving it
        early cancels the request."""
        return self._stream(self._prompt_request(prompt), sampling_params, cache_salt, timeout)

    def stream_chat(self, messages, sampling_params=None, tools=None, *, cache_salt=None, timeout=0,
                    **template_kwargs):
        return self._stream(self._chat_request(messages, tools, template_kwargs), sampling_params,
                            cache_salt, timeout)

    # Text

    @property
    def text(self):
        if self._text is None:
            self._text = Text(self._model, self._chat_template)
        return self._text

    def tokenize(self, text, add_special_tokens=False, parse_special=True):
        return self.text.tokenize(text, add_special_tokens, parse_special)

    def detokenize(self, ids, skip_special_tokens=True):
        return self.text.detokenize(ids, skip_special_tokens)

    def apply_chat_template(self, messages, tools=None, **kwargs):
        return self.text.apply_chat_template(messages, tools, **kwargs)

    # State

    @property
    def info(self):
        """name, architecture, vocab_size, max_model_len, fingerprint, default_sampling, ..."""
        out = c.Buffer()
        c.call("fathom_engine_info", self._engine(), out)
        return json.loads(out.text())

    @property
    def metrics(self):
        metrics = c.Metrics(size=sizeof(c.Metrics))
        c.call("fathom_engine_metrics", self._engine(), byref(metrics))
        return {name: getattr(metrics, name) for name, _ in c.Metrics._fields_[1:]}

    def drain(self):
        """Refuses new requests and returns when the last one has finished."""
        c.call("fathom_engine_drain", self._engine())

    def _engine(self):
        if not self._handle:
            raise FathomError("unavailable", "The model was closed.")
        return self._handle

    def _prompt_request(self, prompt):
        request = c.Request(size=sizeof(c.Request))
        if isinstance(prompt, str):
            raw = c.encoded(prompt)
            request.prompt_text, request.prompt_text_bytes = raw, len(raw)
        else:
            array = c.int32_array(prompt)
            request.prompt_ids, request.prompt_count = cast(array, POINTER(c_int32)), len(array)
        return request

    def _chat_request(self, messages, tools, template_kwargs):
        request = c.Request(size=sizeof(c.Request))
        request.messages_json = json.dumps(messages).encode()
        request.tools_json = None if tools is None else json.dumps(tools).encode()
        request.template_kwargs_json = json.dumps(template_kwargs).encode()
        return request

    @staticmethod
    def _complete(request, sampling, cache_salt, timeout):
        request.sampling_json = (sampling or SamplingParams()).to_json().encode()
        request.cache_salt = None if cache_salt is None else c.path_string(cache_salt)
        request.timeout_seconds = timeout
        return request

    def _submit(self, queue, request, sampling, cache_salt, timeout):
        number = c_uint64()
        request = self._complete(request, sampling, cache_salt, timeout)
        c.call("fathom_engine_submit", self._engine(), queue.as_handle, byref(request), byref(number))
        return number.value

    @staticmethod
    def _collect(queue, numbers):
        outputs = {number: RequestOutput() for number in numbers}
        for number, chunk in queue:
            outputs[number].add(chunk)
        return [outputs[number] for number in numbers]

    def _run(self, requests, sampling_params, cache_salt, timeout):
        if isinstance(sampling_params, SamplingParams) or sampling_params is None:
            sampling_params = [sampling_params] * len(requests)
        if len(sampling_params) != len(requests):
            raise ValueError(f"{len(requests)} prompts, but {len(sampling_params)} sampling_params")
        queue = _Queue()
        try:
            numbers = [self._submit(queue, r, s, cache_salt, timeout)
                       for r, s in zip(requests, sampling_params)]
            return self._collect(queue, numbers)
        finally:
            queue.close()

    def _stream(self, request, sampling_params, cache_salt, timeout):
        queue = _Queue()
        self._submit(queue, request, sampling_params, cache_salt, timeout)  # errors come at once, not at the first chunk

        def chunks():
            try:
                for _, chunk in queue:
                    yield chunk
            finally:
                queue.close()

        return chunks()
