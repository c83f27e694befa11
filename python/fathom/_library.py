"""libfathom.so through ctypes: structures, prototypes, errors. See include/fathom/fathom.h."""
import ctypes
import pathlib
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t,
                    c_uint64, c_void_p, sizeof)

OK = 0
NOT_FOUND = 2
TIMEOUT = 9
FINISH_REASONS = (None, "stop", "length", "cancelled", "error")
ENCODE_ADD_SPECIAL = 1
ENCODE_PLAIN = 2


class FathomError(Exception):
    """A call that failed. `status` is a name such as "invalid_argument" or "not_found"."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Request(Structure):
    _fields_ = [
        ("size", c_size_t), ("id", c_char_p),
        ("prompt_ids", POINTER(c_int32)), ("prompt_count", c_size_t),
        ("prompt_text", c_char_p), ("prompt_text_bytes", c_size_t),
        ("no_special_tokens", c_int32), ("plain_text", c_int32),
        ("messages_json", c_char_p), ("tools_json", c_char_p), ("template_kwargs_json", c_char_p),
        ("sampling_json", c_char_p), ("priority", c_int32), ("stream_capacity", c_size_t),
        ("user", c_void_p), ("cache_salt", c_char_p), ("timeout_seconds", c_double),
    ]


class Event(Structure):
    _fields_ = [
        ("size", c_size_t), ("number", c_uint64), ("request_id", c_char_p), ("user", c_void_p),
        ("token_ids", POINTER(c_int32)), ("token_count", c_size_t),
        ("text", c_void_p), ("text_bytes", c_size_t),
        ("logprobs", POINTER(c_float)), ("top_begin", POINTER(c_size_t)),
        ("top_ids", POINTER(c_int32)), ("top_logprobs", POINTER(c_float)),
        ("finished", c_int32), ("finish_reason", c_int32), ("stop_string", c_char_p),
        ("stop_token_id", c_int32), ("error_status", c_int32), ("error_message", c_char_p),
        ("prompt_tokens", c_int32), ("completion_tokens", c_int32), ("preemptions", c_int32),
        ("queue_seconds", c_double), ("prefill_seconds", c_double), ("decode_seconds", c_double),
        ("seed", c_uint64), ("cached_prompt_tokens", c_int32), ("choice", c_int32),
        ("prompt_logprobs", POINTER(c_float)), ("prompt_top_begin", POINTER(c_size_t)),
        ("prompt_top_ids", POINTER(c_int32)), ("prompt_top_logprobs", POINTER(c_float)),
        ("prompt_logprob_count", c_size_t),
    ]


class Metrics(Structure):
    _fields_ = [
        ("size", c_size_t), ("running", c_int32), ("waiting", c_int32),
        ("kv_pages_total", c_int64), ("kv_pages_used", c_int64),
        ("kv_memory_bytes", c_uint64), ("weight_bytes", c_uint64),
        ("requests_accepted", c_uint64), ("requests_refused", c_uint64),
        ("requests_stopped", c_uint64), ("requests_length", c_uint64),
        ("requests_cancelled", c_uint64), ("requests_failed", c_uint64),
        ("prompt_tokens", c_uint64), ("completion_tokens", c_uint64),
        ("recomputed_tokens", c_uint64), ("preemptions", c_uint64), ("steps", c_uint64),
        ("step_seconds", c_double), ("kv_pages_cached", c_int64),
        ("prefix_query_tokens", c_uint64), ("prefix_hit_tokens", c_uint64),
        ("prefix_evictions", c_uint64), ("timeouts", c_uint64),
    ]


class KvGroupStruct(Structure):
    _fields_ = [
        ("size", c_size_t), ("name", ctypes.c_char * 64), ("growth", c_int32), ("stride", c_int32),
        ("window", c_int32), ("bytes_per_entry", c_uint64),
    ]


class KvMemoryStruct(Structure):
    _fields_ = [
        ("size", c_size_t), ("base", c_void_p), ("page_count", c_int64), ("page_size", c_int32),
        ("page_stride", c_uint64),
    ]


class PageTableStruct(Structure):
    _fields_ = [
        ("size", c_size_t), ("pages", POINTER(c_int32)), ("page_count", c_size_t),
        ("begin", POINTER(c_int32)), ("sequence_count", c_size_t),
    ]


class StepPlanStruct(Structure):
    _fields_ = [
        ("size", c_size_t), ("tokens", POINTER(c_int32)), ("positions", POINTER(c_int32)),
        ("sequences", POINTER(c_int32)), ("row_count", c_size_t),
        ("logit_rows", POINTER(c_int32)), ("logit_row_count", c_size_t),
        ("page_tables", POINTER(PageTableStruct)), ("kv", POINTER(KvMemoryStruct)),
        ("group_count", c_size_t),
    ]


class StepOutputStruct(Structure):
    _fields_ = [("size", c_size_t), ("logits", c_void_p), ("hidden", c_void_p)]


_HANDLE = c_void_p
_OUT = POINTER(c_void_p)
_BUFFER = c_void_p
_PROTOTYPES = {  # name: (result, arguments); calls with a status end with the error buffer
    "fathom_status_name": (c_char_p, [c_int32]),
    "fathom_version": (c_char_p, []),
    "fathom_abi_version": (c_int32, []),
    "fathom_buffer_new": (_BUFFER, []),
    "fathom_buffer_free": (None, [_BUFFER]),
    "fathom_buffer_data": (c_void_p, [_BUFFER]),
    "fathom_buffer_size": (c_size_t, [_BUFFER]),
    "fathom_engine_open": (c_int32, [c_char_p, c_char_p, _OUT, _BUFFER]),
    "fathom_engine_close": (None, [_HANDLE]),
    "fathom_engine_info": (c_int32, [_HANDLE, _BUFFER, _BUFFER]),
    "fathom_engine_metrics": (c_int32, [_HANDLE, POINTER(Metrics), _BUFFER]),
    "fathom_engine_drain": (c_int32, [_HANDLE, _BUFFER]),
    "fathom_queue_new": (_HANDLE, []),
    "fathom_queue_free": (None, [_HANDLE]),
    "fathom_engine_submit": (c_int32, [_HANDLE, _HANDLE, POINTER(Request), POINTER(c_uint64), _BUFFER]),
    "fathom_engine_submit_n": (c_int32, [_HANDLE, _HANDLE, POINTER(Request), c_int32, POINTER(c_uint64),
                                         _BUFFER]),
    "fathom_engine_cancel": (c_int32, [_HANDLE, c_uint64, _BUFFER]),
    "fathom_queue_poll": (c_int32, [_HANDLE, c_int64, POINTER(POINTER(Event)), _BUFFER]),
    "fathom_event_free": (None, [POINTER(Event)]),
    "fathom_text_open": (c_int32, [c_char_p, c_char_p, _OUT, _BUFFER]),
    "fathom_text_close": (None, [_HANDLE]),
    "fathom_text_info": (c_int32, [_HANDLE, _BUFFER, _BUFFER]),
    "fathom_text_encode": (c_int32, [_HANDLE, c_char_p, c_size_t, c_int32, _BUFFER, _BUFFER]),
    "fathom_text_decode": (c_int32, [_HANDLE, POINTER(c_int32), c_size_t, c_int32, _BUFFER, _BUFFER]),
    "fathom_text_render": (c_int32, [_HANDLE, c_char_p, c_char_p, c_char_p, _BUFFER, _BUFFER]),
    "fathom_decoder_new": (c_int32, [_HANDLE, c_int32, _OUT, _BUFFER]),
    "fathom_decoder_free": (None, [_HANDLE]),
    "fathom_decoder_push": (c_int32, [_HANDLE, POINTER(c_int32), c_size_t, _BUFFER, _BUFFER]),
    "fathom_decoder_finish": (c_int32, [_HANDLE, _BUFFER, _BUFFER]),
    "fathom_parser_new": (c_int32, [_HANDLE, c_char_p, c_size_t, _OUT, _BUFFER]),
    "fathom_parser_free": (None, [_HANDLE]),
    "fathom_parser_feed": (c_int32, [_HANDLE, c_char_p, c_size_t, _BUFFER, _BUFFER]),
    "fathom_parser_finish": (c_int32, [_HANDLE, _BUFFER, _BUFFER]),
    "fathom_model_open": (c_int32, [c_char_p, c_char_p, _OUT, _BUFFER]),
    "fathom_model_close": (None, [_HANDLE]),
    "fathom_model_info": (c_int32, [_HANDLE, _BUFFER, _BUFFER]),
    "fathom_model_kv_layout": (c_int32, [_HANDLE, c_size_t, POINTER(KvGroupStruct), _BUFFER]),
    "fathom_model_step": (c_int32, [_HANDLE, POINTER(StepPlanStruct), POINTER(StepOutputStruct), _BUFFER]),
}


def _load():
    here = pathlib.Path(__file__).resolve().parent / "libfathom.so"
    # Without a library beside the package, the one that the system's loader finds.
    library = ctypes.CDLL(str(here) if here.exists() else "libfathom.so.1")
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    if library.fathom_abi_version() != 1:
        raise ImportError(f"libfathom.so has ABI {library.fathom_abi_version()}; this package needs 1.")
    return library


lib = _load()


def version():
    return lib.fathom_version().decode()


class Buffer:
    """Owns a fathom_buffer: what a call gives out."""

    def __init__(self):
        self._as_parameter_ = lib.fathom_buffer_new()
        if not self._as_parameter_:
            raise MemoryError

    def __del__(self):
        if getattr(self, "_as_parameter_", None):
            lib.fathom_buffer_free(self._as_parameter_)

    def bytes(self):
        return ctypes.string_at(lib.fathom_buffer_data(self), lib.fathom_buffer_size(self))

    def text(self):
        return self.bytes().decode("utf-8", "replace")

    def ids(self):
        count = lib.fathom_buffer_size(self) // sizeof(c_int32)
        return list((c_int32 * count).from_buffer_copy(self.bytes()))


def call(name, *arguments, allowed=(OK,)):
    """Calls a function that returns a status; raises FathomError unless the status is `allowed`."""
    error = Buffer()
    status = getattr(lib, name)(*arguments, error)
    if status not in allowed:
        raise FathomError(lib.fathom_status_name(status).decode(), error.text())
    return status


def open_handle(name, *arguments):
    handle = c_void_p()
    call(name, *arguments, byref(handle))
    return handle


def encoded(value):
    """UTF-8 with a byte count beside it, from str, bytes or path; None stays NULL."""
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogatepass")


def path_string(value):
    """A C string that names a model or file; None stays NULL."""
    raw = encoded(value)
    if raw is not None and b"\0" in raw:
        raise ValueError("embedded null byte")  # C would see another name
    return raw


def int32_array(values):
    """A C array from a sequence of ints or from anything with a buffer of int32."""
    try:
        array = (c_int32 * len(values))(*values)
    except TypeError:
        raise TypeError("token ids must be a sequence of integers") from None
    # ctypes drops the high bits of what does not fit: another token instead of an error.
    for given, kept in zip(values, array):
        if given != kept:
            raise ValueError(f"{given} is no token id")
    return array
