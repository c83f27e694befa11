#!/usr/bin/env python3
"""Write tests/data/tokenizers/differential.json: small tokenizers and what the library makes of texts.

Each case is a tokenizer.json without its model (one of `models`, with overrides), and texts with the
ids that Hugging Face `tokenizers` gives. Needs `pip install tokenizers` (0.23.3 was used).

  python3 tools/gen_tokenizer_cases.py | zstd -19 > tests/data/tokenizers/differential.json.zst
"""
import copy
import json
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED_TEXT = """The quick brown fox jumps over the lazy dog. I'll say it's fine; we've been there, don't worry.
def encode(text): return [ids[c] for c in text if c != '\\n']
1234567 3.14159 2026-11-29 10:45 a1b2 100% $5 x->y a::b C++ <think>
Größe naïve café Führer ø Straße İstanbul ΣΑΣ привет мир 你好世界 こんにちは 안녕하세요 नमस्ते ١٢٣ २३
🙂👍🏽 e\u0301 \u00a0\u3000 ² ³ ¹ ½ Ⅷ ① ₂ ﬁ ſ K Å
"""
TEXTS = [
    "", " ", "  ", "   a", "a   ", "\n", "\r\n", "\n\n  \n", "\t\tx", " \u00a0\u3000 ", "Hello, world!",
    "I'LL DON'T it's we'Ve 'S'ſ", "1234567", "12 345 6789", "a1b22c333", "²³¹ x² ½ 1½", "٣٤٥ २३४ 𝟘𝟙𝟚 Ⅷ① ₂",
    "foo²bar² ²foo a²²a", "é e\u0301 ö o\u0308 q\u0323\u0307 q\u0307\u0323", "Å Å Å K K ﬁ fi ǆ", "가 가 한글",
    "İstanbul ISTANBUL ıi ΣΑΣ Straße", "你好，世界。こんにちは。", "🙂👍🏽👨\u200d👩\u200d👧 🇩🇪", "a\u200db\u200cc\u200b",
    "x->y a::b C++ -- ... !?¿ „q“ «r»", "$5 + 3 = 8 ^_^ `c` ~t~ |p|", "<|im_start|>user\nhi<|im_end|>",
    "<|im_start|  <|im_|>", "foo foobar barfoo foo_ _foo foo1 ²foo fooé (foo)", "  foo  foo  ", "foo\nfoo\n",
    "\ufeffBOM \ufffd \x00\x01\x7f\x85", "ab ab  ab", "abc\u0301\u0301abc", "HELLO hello Hello", "the the  the",
    "\u1680\u180e\u2028x\u2029 \u202f", "word\r\n\r\nword \r word", "a.b,c;d", "    return x", "naïve café Führer ø ü",
    "𠮷𐐀𞤀 𝐀", "…—–‘’“”", "\U0001ecc9\U000110bd\u0605\u070f", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]


def train(byte_level):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = (pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level
                       else pre_tokenizers.WhitespaceSplit())
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else [chr(c) for c in range(33, 127)] + ["▁"]
    t.train_from_iterator(SEED_TEXT.split("\n") * 3, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<unk>"], show_progress=False))
    return json.loads(t.to_str())["model"]


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


def template(front, back=()):
    special = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*map(special, front), {"Sequence": {"id": "A", "type_id": 0}}, *map(special, back)],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {n: {"id": n, "ids": [None], "tokens": [n]} for n in {*front, *back}}}


def cases():
    plain = sequence(byte_level())
    for name, pattern in (("llama3", LLAMA3), ("qwen2", QWEN2), ("o200k", O200K)):
        yield dict(name=name, pre=sequence(split(pattern), byte_level()), ignore_merges=name == "llama3",
                   normalizer={"type": "NFC"} if name == "qwen2" else None,
                   added=[token("<|im_start|>", special=True), token("<|im_end|>", special=True)])
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield dict(name=f"split {behavior} {invert}", pre=sequence(split(r"\s+|\p{P}", behavior, invert), byte_level()))
        yield dict(name=f"literal {behavior}", pre=sequence(split("a", behavior, kind="String"), byte_level()))
        yield dict(name=f"punctuation {behavior}", pre=sequence({"type": "Punctuation", "behavior": behavior}, byte_level()))
    for pattern in (r"[^\w\s]", r"\w+", r"\b", r"(?=\p{Lu})", r"^\s+|\s+$", r"(?<=\d)(?=(?:\d{3})+(?!\d))", r"[[:punct:]]+",
                    r"(?i:\p{Lu}[a-c])", r"(?i)[^a-m]+", r"\p{Han}+|\p{Hiragana}+", r"a*", "", r"(?:ab?)*+c?", r"\s{2,}?|\h+"):
        yield dict(name=f"regex {pattern}", pre=sequence(split(pattern), byte_level()))
    yield dict(name="digits", pre=sequence({"type": "Digits", "individual_digits": False}, byte_level()))
    yield dict(name="individual digits", pre=sequence({"type": "Digits", "individual_digits": True}, byte_level()))
    yield dict(name="gpt2", pre=byte_level(regex=True))
    yield dict(name="gpt2 prefix", pre=byte_level(True, True), post={"type": "Sequence", "processors": [
        byte_level(), template(["<s>"], ["</s>"])]}, added=[token("<s>", special=True), token("</s>", special=True)])
    yield dict(name="white space", pre=sequence({"type": "Whitespace"}, byte_level()))
    yield dict(name="white space split", pre=sequence({"type": "WhitespaceSplit"}, byte_level()))
    yield dict(name="bytes, then split", pre=sequence(byte_level(), split("Ġ", "MergedWithNext", kind="String")))
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield dict(name=form, pre=byte_level(regex=True), normalizer={"type": form},
                   added=[token("é", normalized=True), token("Foo", normalized=True), token("①", normalized=True)])
    yield dict(name="byte-level normalizer", normalizer={"type": "ByteLevel"}, added=[token("ø", normalized=True)])
    yield dict(name="strip and replace", pre=plain, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "Replace", "pattern": {"Regex": r" {2,}"}, "content": " "},
        {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "Prepend", "prepend": "x"}]})
    for flag in ("lstrip", "rstrip", "single_word"):
        yield dict(name=f"added {flag}", pre=byte_level(regex=True), added=[
            token("foo", **{flag: True}), token("\n", **{flag: True}), token("<|im_start|>", special=True)])
    yield dict(name="added white space", pre=byte_level(regex=True), added=[
        token("  ", lstrip=True, rstrip=True), token("\n", lstrip=True, rstrip=True), token("①", lstrip=True, rstrip=True)])
    yield dict(name="added, raw before normalized", pre=plain, added=[
        token("foobar", normalized=True), token("foo"), token("bar", normalized=True), token("ø", normalized=True)])
    llama = dict(model="characters", decoder={"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    spaces = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                  {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    yield dict(name="llama2", normalizer=spaces, byte_tokens=True, fuse_unk=True, unk_token="<unk>", **llama)
    yield dict(name="unknown", unk_token="<unk>", **llama)
    yield dict(name="unknown fused", unk_token="<unk>", fuse_unk=True, **llama)
    for scheme in ("always", "never", "first"):
        yield dict(name=f"metaspace {scheme}", added=[token("foo")], **llama, pre={
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme != "never"})


def build(case, base):
    model = copy.deepcopy(base[case.get("model", "bytes")])
    overrides = {k: case[k] for k in ("ignore_merges", "fuse_unk", "unk_token") if k in case}
    vocab = model["vocab"]
    extra = [f"<0x{b:02X}>" for b in range(256)] if case.get("byte_tokens") else []
    if extra:
        overrides["byte_fallback"] = True
    overrides["extra_tokens"] = extra
    for name in extra:
        vocab[name] = len(vocab)
    model.update({k: v for k, v in overrides.items() if k != "extra_tokens"})
    added, ids = [], dict(vocab)
    for entry in case.get("added", []):
        ids.setdefault(entry["content"], len(ids))
        added.append({"id": ids[entry["content"]], **entry})
    post = json.loads(json.dumps(case.get("post")))
    for part in (post or {}).get("processors", []):
        for name, special in part.get("special_tokens", {}).items():
            special["ids"] = [ids[name]]
    rest = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": case.get("normalizer"), "pre_tokenizer": case.get("pre"), "post_processor": post,
            "decoder": case.get("decoder", byte_level())}
    return rest, overrides, Tokenizer.from_str(json.dumps({**rest, "model": model}))


def main():
    base = {"bytes": train(True), "characters": train(False)}
    out = []
    for case in cases():
        rest, overrides, tokenizer = build(case, base)
        special = rest["post_processor"] is not None
        out.append({"name": case["name"], "model": case.get("model", "bytes"), "overrides": overrides,
                    "tokenizer": rest, "add_special_tokens": special,
                    "ids": [tokenizer.encode(t, add_special_tokens=special).ids for t in TEXTS]})
    print(json.dumps({"made_with": "tokenizers 0.23.3", "models": base, "texts": TEXTS, "cases": out}))


if __name__ == "__main__":
    main()
