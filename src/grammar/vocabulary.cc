// The bytes of tokens, and the few tokens that masks treat apart.
#include "grammar/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

namespace fathom {

namespace {
constexpr int32_t kMaxIds = 1 << 22;  // stop ids may lie beyond the vocabulary, but not far
}

Result<Vocabulary> Vocabulary::create(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids) {
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());
  int32_t size = tokenizer.vocab_size();
  if (!stop_ids.empty()) {
    if (stop_ids.front() < 0 || stop_ids.back() >= kMaxIds) {
      return error(
          Code::kInvalidArgument,
          fmt::format("A stop id is {}; structured output needs ids in 0 to {}.",
                      stop_ids.front() < 0 ? stop_ids.front() : stop_ids.back(), kMaxIds - 1));
    }
    size = std::max(size, stop_ids.back() + 1);
  }
  Vocabulary vocabulary;
  vocabulary.stop_ids_ = std::move(stop_ids);
  vocabulary.bytes_.resize(static_cast<size_t>(size));
  vocabulary.control_.resize(static_cast<size_t>(size), false);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const size_t index = static_cast<size_t>(id);
    vocabulary.bytes_[index] = tokenizer.token_bytes(id);
    vocabulary.control_[index] = tokenizer.is_control(id) || tokenizer.is_special(id);
    if (vocabulary.bytes_[index] == "\n" || vocabulary.bytes_[index] == "\n\n") {
      vocabulary.newline_ids_.push_back(id);
    }
  }
  return vocabulary;
}

std::string_view Vocabulary::bytes(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  return bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> Vocabulary::marker(std::string_view text) const {
  // Markers stand at the end of the vocabulary.
  for (int32_t id = size() - 1; id >= 0; --id) {
    if (is_control(id) && bytes(id) == text) return id;
  }
  return std::nullopt;
}

}  // namespace fathom
