// TokenDecoder: what a token stands for when ids become text again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace fathom {

// The decoder of tokenizer.json as a rule from one token to its bytes, plus a strip at the very
// start of a text. Immutable.
//
// Supported: ByteLevel (also in a Sequence with Fuse), and the form of converted SentencePiece
// models: Replace of literals, ByteFallback, Fuse, Strip at the start, in this order, each
// optional.
class TokenDecoder {
 public:
  static Result<TokenDecoder> read(const nlohmann::json& component);

  // The bytes of a base token, given as tokenizer.json writes it.
  std::string bytes_of(std::string_view token) const;

  // At most this many spaces are dropped where a text begins.
  size_t leading_strip() const { return strip_count_; }

 private:
  Status add(const nlohmann::json& component, const std::string& where, int depth);
  Status add_strip(const nlohmann::json& component, const std::string& where);

  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fused_ = false;
  std::vector<std::pair<std::string, std::string>> replaced_;  // each first by each second
  size_t strip_count_ = 0;
};

}  // namespace fathom
