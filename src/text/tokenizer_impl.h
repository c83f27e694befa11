// The inside of Tokenizer: its parts as read from tokenizer.json and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace fathom {

// Memory of one call of encode, reused between its pieces.
struct EncodeScratch {
  PreTokenizer::Scratch pre_tokenizer;
  PreTokenizer::Words words;
  BpeModel::Scratch model;
};

struct Tokenizer::Impl {
  // Added tokens are looked for twice: in the raw text and, for those with `normalized`, again in
  // what the normalizer made of the text between.
  struct Matchers {
    TokenMatcher raw;
    TokenMatcher normalized;
  };

  static Result<std::unique_ptr<Impl>> build(std::string_view json, std::string_view config);

  Status encode(std::string_view text, bool parse_special, std::vector<int32_t>& ids) const;
  Status encode_words(std::string text, bool at_start, EncodeScratch& scratch,
                      std::vector<int32_t>& ids) const;
  std::optional<int32_t> token_id(std::string_view token) const;

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  TokenDecoder decoder;
  std::vector<AddedToken> added;
  std::unordered_map<int32_t, size_t> added_by_id;
  std::unordered_map<std::string_view, int32_t> added_ids;  // keys are contents of `added`
  Matchers all;                                             // every added token
  Matchers plain;                                           // only those that are plain text
  std::string bytes;                // what each token stands for, one after the other
  std::vector<uint32_t> byte_ends;  // [vocab size]
  std::vector<int32_t> before;      // added in front of a text on demand
  std::vector<int32_t> after;
  std::optional<int32_t> bos, eos, pad;
  bool add_bos_token = false;  // of tokenizer_config.json
  bool has_post_processor = false;

 private:
  Status add_tokens(const TokenizerJson& file);
  Status build_matchers();
  Status build_bytes();
  Status read_post_processor(const nlohmann::json& component, const std::string& where, int depth);
  Status read_template(const nlohmann::json& component, const std::string& where);
  Result<std::vector<int32_t>> template_ids(const nlohmann::json& component,
                                            const nlohmann::json& piece,
                                            const std::string& where) const;
  Status read_config(std::string_view text);
};

}  // namespace fathom
