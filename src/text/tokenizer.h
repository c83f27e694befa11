// Tokenizer: text to token ids and back, as a Hugging Face tokenizer.json says (byte-level BPE).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace fathom {

struct EncodeOptions {
  // Adds what the model expects around a text (usually BOS). False for rendered chat templates,
  // which write BOS themselves.
  bool add_special_tokens = false;
  // False for text of a user: what looks like a special token ("<｜User｜>") is encoded as ordinary
  // text. Added tokens that are plain text (single letters, runs of spaces) match all the same.
  bool parse_special = true;
};

// A tokenizer, immutable after load: every method may be called from several threads at once.
//
// tokenizer.json is used verbatim; the class name in tokenizer_config.json is ignored. A component
// type that is not known here is refused by name. Invalid UTF-8 given to encode() becomes U+FFFD,
// one for each maximal invalid part (as in the Unicode standard, 3.9, "U+FFFD substitution of
// maximal subparts"), before anything else happens.
class Tokenizer {
 public:
  // Reads tokenizer.json (required) and tokenizer_config.json (optional) of a model folder.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& model_dir);
  // The same from texts; an empty tokenizer_config_json means there is none.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config_json);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // With add_special_tokens, exactly what the `tokenizers` library adds: the post_processor of
  // tokenizer.json decides; without one add_bos_token / add_eos_token of tokenizer_config.json do.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  // A prompt for plain completion: as encode() with add_special_tokens, but with exactly one BOS in
  // front if the model wants one (wants_bos), also where the text brings its own.
  Result<std::vector<int32_t>> encode_prompt(std::string_view text,
                                             bool parse_special = true) const;
  // Valid UTF-8; bytes that are no character become U+FFFD, one for each maximal invalid part.
  // Unknown ids give nothing.
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const;

  // What the token stands for, before UTF-8 is checked; "" for unknown ids. An added token stands
  // for its own text. Valid as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;
  // The token as tokenizer.json writes it ("Ġhello"); "" for unknown ids.
  std::string_view token_text(int32_t id) const;
  // Decoding drops up to this many spaces where a text begins (0 unless byte_fallback is used).
  size_t leading_strip() const;
  // The id of a token as tokenizer.json writes it, base vocabulary or added.
  std::optional<int32_t> token_id(std::string_view token) const;
  bool is_special(int32_t id) const;  // an added token with special = true
  bool is_added(int32_t id) const;
  bool is_control(int32_t id) const;  // an added token that parse_special = false leaves as text

  // Ids are in [0, vocab_size()); there may be holes. A model's logits may be wider than this:
  // such ids are padding and must not be sampled.
  int32_t vocab_size() const;

  // From tokenizer_config.json (bos_token, eos_token, pad_token), where that names a known token.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  // Whether encode() with add_special_tokens puts BOS first / EOS last.
  bool adds_bos() const;
  bool adds_eos() const;
  // Whether the model was trained with BOS in front of every text: adds_bos(), or add_bos_token of
  // tokenizer_config.json. The released V3 files have only the flag. transformers 4 obeys it for
  // LlamaTokenizerFast by replacing the post_processor; transformers 5 and `tokenizers` do not.
  bool wants_bos() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
