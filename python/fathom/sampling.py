"""SamplingParams: how tokens are chosen and when a request stops."""
import dataclasses
import json
from typing import Mapping, Optional, Sequence, Union


@dataclasses.dataclass
class SamplingParams:
    """None means the model's own default (generation_config.json), else the engine's."""

    temperature: Optional[float] = None  # 0 = greedy
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    min_p: Optional[float] = None
    repetition_penalty: Optional[float] = None
    presence_penalty: Optional[float] = None
    frequency_penalty: Optional[float] = None
    seed: Optional[int] = None  # None: the engine draws one and reports it in the usage
    logit_bias: Optional[Mapping[int, float]] = None
    max_tokens: Optional[int] = None  # None: the rest of the context
    min_tokens: Optional[int] = None
    stop: Union[str, Sequence[str], None] = None
    stop_token_ids: Optional[Sequence[int]] = None
    ignore_eos: Optional[bool] = None
    include_stop: Optional[bool] = None  # keep the stop string in the text
    skip_special_tokens: Optional[bool] = None
    logprobs: Optional[int] = None  # n: of the chosen token and the n best
    prompt_logprobs: Optional[int] = None  # n: the same for the prompt's tokens; max_tokens may be 0 then

    def to_json(self):
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if "logit_bias" in given:
            given["logit_bias"] = {str(token): bias for token, bias in given["logit_bias"].items()}
        for name in ("stop", "stop_token_ids"):
            if name in given and not isinstance(given[name], str):
                given[name] = list(given[name])
        return json.dumps(given, allow_nan=False)  # ValueError for what is no number
