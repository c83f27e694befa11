"""Makes nano's byte-level BPE tokenizer (512 ids, DeepSeek-V3's pipeline): tokenizer.json, tokenizer_config.json."""
import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import tasks
from chat import ADDED_TOKENS, BOS, EOS, PAD, TEMPLATE, render
from lookup import document

VOCAB_SIZE = 512
_SYMBOLS = r"!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"
SPLITS = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
          "[" + _SYMBOLS.replace('\\"', '"') + r"][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" + "\r\n"
          + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


class _PlainEncoder:
    """Counts characters for tokens while no tokenizer exists yet."""

    def plain(self, text):
        return text


def corpus():
    """Training text for the merges: every task, schemas and lists included."""
    rng = random.Random(1)
    for _ in range(20_000):
        unit = tasks.draw(rng)
        yield "".join(text for text, _ in render(unit.messages, unit.tools))
    for _ in range(200):
        yield document(rng, _PlainEncoder(), 3000, 1)[0]


def train_merges():
    """Merges inside runs of letters or of punctuation only, so that a word is cut the same in every surrounding."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r"[A-Za-z]+|[!-/:-@\[-`{-~]+|[^A-Za-z!-/:-@\[-`{-~]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    size = VOCAB_SIZE - 3 - len(ADDED_TOKENS)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = [BOS, EOS, PAD] + ADDED_TOKENS

    def texts():
        for text in corpus():
            for token in special:
                text = text.replace(token, " ")
            yield text

    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    return pieces, [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]


def added(i, text, special, normalized=False):
    return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}


def tokenizer_json():
    pieces, merges = train_merges()
    base = [BOS, EOS, PAD] + pieces
    assert len(base) + len(ADDED_TOKENS) == VOCAB_SIZE
    split = [{"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False} for r in SPLITS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(i, t, True) for i, t in enumerate(base[:3])]
        + [added(len(base) + i, t, t == "<|EOT|>", True) for i, t in enumerate(ADDED_TOKENS)],
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split + [byte_level]},
        "post_processor": dict(BYTE_LEVEL, trim_offsets=False),
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": {t: i for i, t in enumerate(base)}, "merges": merges},
    }


def tokenizer_config():
    def token(text):
        return {"__type": "AddedToken", "content": text, "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    return {"add_bos_token": True, "add_eos_token": False, "bos_token": token(BOS), "clean_up_tokenization_spaces": False,
            "eos_token": token(EOS), "legacy": True, "model_max_length": 4096, "pad_token": token(EOS), "sp_model_kwargs": {},
            "unk_token": None, "tokenizer_class": "LlamaTokenizerFast", "chat_template": TEMPLATE}


def main():
    here = Path(__file__).parent
    for file, content in (("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", tokenizer_config())):
        (here / file).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
