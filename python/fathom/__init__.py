"""fathom: a native inference engine for DeepSeek models.

    import fathom
    with fathom.LLM("path/to/model") as llm:
        for output in llm.generate(["Once upon a time"], fathom.SamplingParams(max_tokens=32)):
            print(output.text)
"""
from ._library import FathomError, version
from .llm import LLM, Chunk, RequestOutput, Usage
from .model import KvGroup, KvMemory, Model, PageTable
from .sampling import SamplingParams
from .text import Decoder, OutputParser, Text

__version__ = version()
__all__ = [
    "Chunk", "Decoder", "FathomError", "KvGroup", "KvMemory", "LLM", "Model", "OutputParser",
    "PageTable", "RequestOutput", "SamplingParams", "Text", "Usage", "__version__",
]
