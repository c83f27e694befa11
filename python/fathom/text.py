"""Text: tokenizer and chat template of a model folder; no weights are needed."""
import json

from . import _library as c
from ._library import FathomError, lib


class Text:
    """May be used by several threads at once."""

    def __init__(self, model, chat_template=None):
        self._handle = c.open_handle("fathom_text_open", c.path_string(model),
                                     c.path_string(chat_template))

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_text_close(handle)

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self):
        if not self._handle:
            raise FathomError("unavailable", "The text was closed.")
        return self._handle

    @property
    def info(self):
        """vocab_size, bos_token_id, eos_token_id, pad_token_id, adds_bos, adds_eos, ..."""
        out = c.Buffer()
        c.call("fathom_text_info", self._open(), out)
        return json.loads(out.text())

    def tokenize(self, text, add_special_tokens=False, parse_special=True):
        """Token ids. parse_special=False: what looks like a special token is ordinary text."""
        raw = c.encoded(text)
        flags = ((c.ENCODE_ADD_SPECIAL if add_special_tokens else 0)
                 | (0 if parse_special else c.ENCODE_PLAIN))
        out = c.Buffer()
        c.call("fathom_text_encode", self._open(), raw, len(raw), flags, out)
        return out.ids()

    def detokenize(self, ids, skip_special_tokens=True):
        array = c.int32_array(ids)
        out = c.Buffer()
        c.call("fathom_text_decode", self._open(), array, len(array), int(skip_special_tokens), out)
        return out.text()

    def apply_chat_template(self, messages, tools=None, **kwargs):
        """The conversation as text. `kwargs`: add_generation_prompt (True unless given),
        continue_final_message and variables of the template."""
        out = c.Buffer()
        c.call("fathom_text_render", self._open(), json.dumps(messages).encode(),
               None if tools is None else json.dumps(tools).encode(), json.dumps(kwargs).encode(), out)
        return out.text()

    def parser(self, prompt=""):
        """A parser of the answer to the rendered conversation `prompt`."""
        return OutputParser(self, prompt)

    def decoder(self, skip_special_tokens=True):
        return Decoder(self, skip_special_tokens)


class Decoder:
    """Token ids to text as they come: never half a character, never one lost. One thread at a time,
    and only while its Text is open."""

    def __init__(self, text, skip_special_tokens=True):
        self._text = text  # whose tokenizer the decoder reads
        self._handle = c.open_handle("fathom_decoder_new", text._open(), int(skip_special_tokens))

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_decoder_free(handle)

    def push(self, ids):
        array = c.int32_array(ids)
        self._text._open()
        out = c.Buffer()
        c.call("fathom_decoder_push", self._handle, array, len(array), out)
        return out.text()

    def finish(self):
        self._text._open()
        out = c.Buffer()
        c.call("fathom_decoder_finish", self._handle, out)
        return out.text()


class OutputParser:
    """Splits an answer, special tokens kept, into reasoning, content and tool calls: lists of
    {"kind", "index", "text"} as in fathom_parser_feed. One thread at a time."""

    def __init__(self, text, prompt=""):
        raw = c.encoded(prompt)
        self._handle = c.open_handle("fathom_parser_new", text._open(), raw, len(raw))

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_parser_free(handle)

    def feed(self, text):
        raw = c.encoded(text)
        out = c.Buffer()
        c.call("fathom_parser_feed", self._handle, raw, len(raw), out)
        return json.loads(out.text())

    def finish(self):
        out = c.Buffer()
        c.call("fathom_parser_finish", self._handle, out)
        return json.loads(out.text())
