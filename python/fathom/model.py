"""Model: one forward pass over a plan and KV memory of the caller; no scheduler, no tokenizer."""
import dataclasses
import json
from ctypes import byref, sizeof
from typing import Sequence

from . import _library as c
from ._library import lib


@dataclasses.dataclass
class KvGroup:
    name: str
    growth: int  # FATHOM_KV_* of fathom.h; 0 = one entry a token
    stride: int
    window: int
    bytes_per_entry: int  # all layers together


@dataclasses.dataclass
class KvMemory:
    """KV memory of one group: page i starts at address base + i * page_stride."""

    base: int
    page_count: int
    page_size: int  # tokens per page: 8, 16, 32, 64, 128
    page_stride: int  # bytes


@dataclasses.dataclass
class PageTable:
    """The entry of position p of sequence s is in page pages[begin[s] + p // page_size]."""

    pages: Sequence[int]
    begin: Sequence[int]  # one more than there are sequences


class Model:
    """`options`: threads, isa, kv_dtype, load_format, mmap, config_override."""

    def __init__(self, model, **options):
        self._handle = c.open_handle("fathom_model_open", c.path_string(model), json.dumps(options).encode())

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.fathom_model_close(handle)

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def info(self):
        out = c.Buffer()
        c.call("fathom_model_info", self._handle, out)
        return json.loads(out.text())

    @property
    def kv_layout(self):
        groups = []
        group = c.KvGroupStruct(size=sizeof(c.KvGroupStruct))
        while c.call("fathom_model_kv_layout", self._handle, len(groups), byref(group),
                     allowed=(c.OK, c.NOT_FOUND)) == c.OK:
            groups.append(KvGroup(group.name.decode(), group.growth, group.stride, group.window,
                                  group.bytes_per_entry))
        return groups

    def step(self, tokens, positions, sequences, logit_rows, page_tables, kv, logits=None, hidden=None):
        """Runs the rows and writes results of logit_rows to the addresses `logits`
        [len(logit_rows), vocab_size] and `hidden` [len(logit_rows), hidden_size], float32."""
        arrays = [c.int32_array(values) for values in (tokens, positions, sequences, logit_rows)]
        if not len(arrays[0]) == len(arrays[1]) == len(arrays[2]):
            raise ValueError("tokens, positions and sequences differ in length")
        if len(page_tables) != len(kv):
            raise ValueError(f"{len(page_tables)} page tables, but {len(kv)} KV memories")
        tables = (c.PageTableStruct * len(page_tables))()
        memories = (c.KvMemoryStruct * len(kv))()
        for out, table in zip(tables, page_tables):
            pages, begin = c.int32_array(table.pages), c.int32_array(table.begin)
            arrays += [pages, begin]  # kept alive until the call is over
            out.size, out.pages, out.page_count = sizeof(c.PageTableStruct), pages, len(pages)
            out.begin, out.sequence_count = begin, len(begin) - 1
        for out, memory in zip(memories, kv):
            out.size, out.base = sizeof(c.KvMemoryStruct), memory.base
            out.page_count, out.page_size = memory.page_count, memory.page_size
            out.page_stride = memory.page_stride
        plan = c.StepPlanStruct(sizeof(c.StepPlanStruct), arrays[0], arrays[1], arrays[2],
                                len(arrays[0]), arrays[3], len(arrays[3]), tables, memories,
                                len(page_tables))
        output = c.StepOutputStruct(sizeof(c.StepOutputStruct), logits, hidden)
        c.call("fathom_model_step", self._handle, byref(plan), byref(output))
