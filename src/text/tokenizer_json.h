// Reads tokenizer.json as a stream: vocabulary and merges into lists, the rest into a small tree.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace fathom {

// tokenizer.json as read; nothing is checked yet but the shape of `vocab` and `merges`.
struct TokenizerJson {
  std::vector<std::pair<std::string, uint64_t>> vocab;      // model.vocab in file order
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges by rank
  bool has_vocab = false;
  bool has_merges = false;
  nlohmann::json rest;  // everything else: an object
};

Result<TokenizerJson> read_tokenizer_json(std::string_view text);

// A text in quotes for a message; a long one is cut.
std::string in_quotes(std::string_view text);

// A member of an object with the type it must have. `where` names the object in messages.
Result<bool> json_bool(const nlohmann::json& object, const char* key, const std::string& where);
Result<bool> json_bool_or(const nlohmann::json& object, const char* key, bool fallback,
                          const std::string& where);
Result<std::string> json_string(const nlohmann::json& object, const char* key,
                                const std::string& where);
// The array `key` of an object.
Result<const nlohmann::json*> json_array(const nlohmann::json& object, const char* key,
                                         const std::string& where);
// Its "type", which every component of a tokenizer has.
Result<std::string> json_type(const nlohmann::json& component, const std::string& where);

}  // namespace fathom
