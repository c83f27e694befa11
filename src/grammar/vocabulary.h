// Vocabulary: what masks need to know about a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/tokenizer.h"

namespace fathom {

// Immutable after create(); shared by compilers and masks.
class Vocabulary {
 public:
  static Result<Vocabulary> create(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids);

  // Ids are in [0, size()): every token and every stop id.
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }
  // What the token adds to the answer's text, special tokens included; "" for holes.
  std::string_view bytes(int32_t id) const;
  bool is_control(int32_t id) const { return control_[static_cast<size_t>(id)]; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }        // ascending
  const std::vector<int32_t>& newline_ids() const { return newline_ids_; }  // "\n" and "\n\n"
  // The token that is exactly this text, if the tokenizer takes it for one: <think>, markers.
  std::optional<int32_t> marker(std::string_view text) const;

 private:
  std::vector<std::string> bytes_;
  std::vector<bool> control_;
  std::vector<int32_t> stop_ids_;
  std::vector<int32_t> newline_ids_;
};

}  // namespace fathom
