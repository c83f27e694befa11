// The vocabulary's tables: one arena of texts, spans by id, a hash table by text.
#include <bit>
#include <functional>

#include "text/bpe_model.h"

namespace fathom {
namespace {

// A table is indexed by id: this bounds it by the size of the file.
constexpr uint64_t kIdsPerToken = 4;
constexpr uint64_t kSpareIds = 1 << 16;

size_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

Result<Vocabulary> Vocabulary::build(const std::vector<std::pair<std::string, uint64_t>>& tokens) {
  Vocabulary vocabulary;
  const uint64_t limit = tokens.size() * kIdsPerToken + kSpareIds;
  uint64_t bytes = 0;
  uint64_t size = 0;
  for (const auto& [text, id] : tokens) {
    if (id >= limit) {
      return error(Code::kCorrupt, "model.vocab gives token " + in_quotes(text) + " the id " +
                                       std::to_string(id) + ", far beyond its " +
                                       std::to_string(tokens.size()) + " tokens");
    }
    bytes += text.size();
    size = std::max(size, id + 1);
  }
  if (bytes >= kHole || size > INT32_MAX) {
    return error(Code::kCorrupt, "model.vocab is larger than 4 GiB");
  }
  vocabulary.arena_.reserve(bytes);
  vocabulary.spans_.resize(size);
  vocabulary.slots_.assign(std::bit_ceil(tokens.size() * 2 + 1), -1);
  const size_t mask = vocabulary.slots_.size() - 1;
  for (const auto& [text, id] : tokens) {
    Span& span = vocabulary.spans_[id];
    if (span.begin != kHole) {
      return error(Code::kCorrupt,
                   "model.vocab gives the id " + std::to_string(id) + " to two tokens, " +
                       in_quotes(std::string(vocabulary.text(static_cast<int32_t>(id)))) + " and " +
                       in_quotes(text));
    }
    size_t slot = hash_of(text) & mask;
    for (; vocabulary.slots_[slot] >= 0; slot = (slot + 1) & mask) {
      if (vocabulary.text(vocabulary.slots_[slot]) == text) {
        return error(Code::kCorrupt, "model.vocab has the token " + in_quotes(text) + " twice");
      }
    }
    vocabulary.slots_[slot] = static_cast<int32_t>(id);
    span = {static_cast<uint32_t>(vocabulary.arena_.size()), static_cast<uint32_t>(text.size())};
    vocabulary.arena_ += text;
  }
  vocabulary.count_ = tokens.size();
  return vocabulary;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash_of(token) & mask; slots_[slot] >= 0; slot = (slot + 1) & mask) {
    if (text(slots_[slot]) == token) return slots_[slot];
  }
  return std::nullopt;
}

std::string_view Vocabulary::text(int32_t id) const {
  if (!has(id)) return {};
  const Span& span = spans_[static_cast<size_t>(id)];
  return std::string_view(arena_).substr(span.begin, span.length);
}

}  // namespace fathom
