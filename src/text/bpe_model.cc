// Byte-pair encoding with a queue of merges, linear in the word but for the queue's logarithm.
#include "text/bpe_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int32_t kNone = -1;
constexpr size_t kShortWord = 256;  // symbols
constexpr size_t kMaxAffixBytes = 64;

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t pair_hash(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  return static_cast<size_t>(pair >> 29 ^ pair);
}

void add_symbol(BpeModel::Scratch& scratch, int32_t id, size_t length) {
  const auto index = static_cast<int32_t>(scratch.symbols.size());
  if (index > 0) scratch.symbols.back().next = index;
  scratch.symbols.push_back({id, index - 1, kNone, static_cast<uint32_t>(length)});
}

}  // namespace

// A short word and its ids; 64 bytes, a cache line.
struct BpeModel::CachedWord {
  static constexpr size_t kMaxBytes = 30;
  static constexpr size_t kMaxIds = 8;
  uint8_t length = 0;  // 0: free
  uint8_t count = 0;
  char bytes[kMaxBytes];
  int32_t ids[kMaxIds];
};

// Each word has one place; a newer word that hashes to it takes it over.
struct BpeModel::Cache {
  static constexpr size_t kWords = 1 << 15;
  static constexpr size_t kLocks = 64;
  std::vector<CachedWord> words = std::vector<CachedWord>(kWords);
  std::array<std::mutex, kLocks> locks;

  bool find(std::string_view word, std::vector<int32_t>& ids) {
    const size_t slot = slot_of(word);
    const std::lock_guard lock(locks[slot % kLocks]);
    const CachedWord& entry = words[slot];
    if (std::string_view(entry.bytes, entry.length) != word) return false;
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return true;
  }

  void store(std::string_view word, const int32_t* ids, size_t count) {
    if (count > CachedWord::kMaxIds) return;
    const size_t slot = slot_of(word);
    const std::lock_guard lock(locks[slot % kLocks]);
    CachedWord& entry = words[slot];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.bytes, word.data(), word.size());
    std::copy_n(ids, count, entry.ids);
  }

 private:
  static size_t slot_of(std::string_view word) {
    return std::hash<std::string_view>()(word) % kWords;
  }
};

void BpeModel::CacheDeleter::operator()(Cache* cache) const {
  delete cache;
}

Result<BpeModel> BpeModel::build(const TokenizerJson& file, bool raw_bytes) {
  BpeModel model;
  model.raw_bytes_ = raw_bytes;
  FATHOM_TRY(model.read_options(file.rest.at("model")));
  if (!file.has_vocab || !file.has_merges) {
    return error(Code::kCorrupt, std::string("model.") + (file.has_vocab ? "merges" : "vocab") +
                                     " is missing or of the wrong type");
  }
  FATHOM_ASSIGN(model.vocabulary_, Vocabulary::build(file.vocab));
  for (size_t byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const std::string code = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    const char raw = static_cast<char>(byte);
    model.byte_ids_[byte] =
        model.vocabulary_.find(to_byte_letters(std::string_view(&raw, 1))).value_or(kNone);
    model.fallback_ids_[byte] = model.vocabulary_.find(code).value_or(kNone);
  }
  FATHOM_TRY(model.add_merges(file.merges));
  model.cache_.reset(new Cache);
  return model;
}

Status BpeModel::read_options(const nlohmann::json& model) {
  const auto option = [&](const char* key) { return model.value(key, nlohmann::json()); };
  const nlohmann::json dropout = option("dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0)) {
    return {Code::kUnsupported, "model.dropout is set: its encoding would be random"};
  }
  for (const auto& [key, text] :
       {std::pair<const char*, std::string*>{"continuing_subword_prefix", &continuing_prefix_},
        {"end_of_word_suffix", &end_suffix_}}) {
    const nlohmann::json value = option(key);
    if (!value.is_null() && !value.is_string()) {
      return {Code::kCorrupt, std::string("model.") + key + " is not a string"};
    }
    if (value.is_string()) *text = value.get<std::string>();
    if (text->size() > kMaxAffixBytes) {
      return {Code::kUnsupported, std::string("model.") + key + " is longer than 64 bytes"};
    }
  }
  const nlohmann::json unk = option("unk_token");
  if (!unk.is_null() && !unk.is_string())
    return {Code::kCorrupt, "model.unk_token is not a string"};
  if (unk.is_string()) unk_token_ = unk.get<std::string>();
  FATHOM_ASSIGN_OR_STATUS(fuse_unk_, json_bool_or(model, "fuse_unk", false, "model"));
  FATHOM_ASSIGN_OR_STATUS(byte_fallback_, json_bool_or(model, "byte_fallback", false, "model"));
  FATHOM_ASSIGN_OR_STATUS(ignore_merges_, json_bool_or(model, "ignore_merges", false, "model"));
  return {};
}

Status BpeModel::add_merges(const std::vector<std::pair<std::string, std::string>>& merges) {
  merges_.resize(std::bit_ceil(merges.size() * 2 + 1));
  merged_by_rank_.reserve(merges.size());
  std::string merged;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::string place = "model.merges[" + std::to_string(rank) + "]";
    if (right.size() < continuing_prefix_.size()) {
      return {Code::kCorrupt,
              place + " has a second part " + in_quotes(right) + " shorter than the prefix"};
    }
    merged.assign(left).append(right, continuing_prefix_.size());
    int32_t ids[3];
    size_t i = 0;
    for (const std::string* token : {&left, &right, static_cast<const std::string*>(&merged)}) {
      const std::optional<int32_t> id = vocabulary_.find(*token);
      if (!id) {
        return {Code::kCorrupt,
                place + " names the token " + in_quotes(*token) + ", which model.vocab lacks"};
      }
      ids[i++] = *id;
    }
    insert_merge(pair_key(ids[0], ids[1]), static_cast<uint32_t>(rank), ids[2]);
    merged_by_rank_.push_back(ids[2]);
  }
  return {};
}

// Of a pair that is listed twice the later rank counts, as in the library.
void BpeModel::insert_merge(uint64_t pair, uint32_t rank, int32_t id) {
  const size_t mask = merges_.size() - 1;
  size_t slot = pair_hash(pair) & mask;
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = (slot + 1) & mask;
  merges_[slot] = {pair, rank, id};
}

const BpeModel::Merge* BpeModel::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t slot = pair_hash(pair) & mask; merges_[slot].pair != kNoPair;
       slot = (slot + 1) & mask) {
    if (merges_[slot].pair == pair) return &merges_[slot];
  }
  return nullptr;
}

Status BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (word.empty()) return {};
  if (ignore_merges_) {
    if (raw_bytes_) scratch.letters = to_byte_letters(word);
    const auto whole = vocabulary_.find(raw_bytes_ ? std::string_view(scratch.letters) : word);
    if (whole) {
      ids.push_back(*whole);
      return {};
    }
  }
  const bool cacheable = word.size() <= CachedWord::kMaxBytes;
  if (cacheable && cache_->find(word, ids)) return {};
  scratch.symbols.clear();
  const bool plain_bytes = continuing_prefix_.empty() && end_suffix_.empty() && !byte_fallback_;
  if (raw_bytes_ && plain_bytes) {
    FATHOM_RETURN_IF_ERROR(split_bytes(word, scratch));
  } else if (raw_bytes_) {
    scratch.letters = to_byte_letters(word);
    FATHOM_RETURN_IF_ERROR(split_characters(scratch.letters, scratch));
  } else {
    FATHOM_RETURN_IF_ERROR(split_characters(word, scratch));
  }
  if (scratch.symbols.size() <= kShortWord) {
    merge_all(scratch.symbols, scratch.short_queue);
  } else {
    merge_all(scratch.symbols, scratch.long_queue);
  }
  const size_t first = ids.size();
  for (const Scratch::Symbol& symbol : scratch.symbols) {
    if (symbol.length > 0) ids.push_back(symbol.id);
  }
  if (cacheable) cache_->store(word, ids.data() + first, ids.size() - first);
  return {};
}

Status BpeModel::split_bytes(std::string_view word, Scratch& scratch) const {
  scratch.symbols.reserve(word.size());
  std::pair<int32_t, uint32_t> pending{kNone, 0};
  for (const char raw : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(raw)];
    if (id == kNone) {
      FATHOM_RETURN_IF_ERROR(unknown(1, scratch, pending));
      continue;
    }
    if (pending.second > 0) add_symbol(scratch, pending.first, std::exchange(pending.second, 0));
    add_symbol(scratch, id, 1);
  }
  if (pending.second > 0) add_symbol(scratch, pending.first, pending.second);
  return {};
}

Status BpeModel::split_characters(std::string_view word, Scratch& scratch) const {
  std::pair<int32_t, uint32_t> pending{kNone, 0};  // an unknown token not yet added
  std::string key;
  for (size_t at = 0; at < word.size();) {
    const size_t size = decode_utf8(word.substr(at)).size;
    const std::string_view character = word.substr(at, size);
    key.assign(at > 0 ? continuing_prefix_ : std::string()).append(character);
    at += size;
    if (at == word.size()) key += end_suffix_;
    if (const std::optional<int32_t> id = vocabulary_.find(key)) {
      if (pending.second > 0) add_symbol(scratch, pending.first, std::exchange(pending.second, 0));
      add_symbol(scratch, *id, size);
    } else if (!byte_fallback_ || !byte_tokens(key, scratch)) {
      FATHOM_RETURN_IF_ERROR(unknown(size, scratch, pending));
    }
  }
  if (pending.second > 0) add_symbol(scratch, pending.first, pending.second);
  return {};
}

// A character outside the vocabulary becomes the unknown token, or vanishes if there is none.
Status BpeModel::unknown(size_t length, Scratch& scratch,
                         std::pair<int32_t, uint32_t>& pending) const {
  if (!unk_token_) return {};
  if (pending.second > 0 && fuse_unk_) {
    pending.second += static_cast<uint32_t>(length);
    return {};
  }
  if (pending.second > 0) add_symbol(scratch, pending.first, pending.second);
  const std::optional<int32_t> id = vocabulary_.find(*unk_token_);
  if (!id) {
    return {Code::kCorrupt, "the text needs the unknown token " + in_quotes(*unk_token_) +
                                ", which model.vocab of tokenizer.json lacks"};
  }
  pending = {*id, static_cast<uint32_t>(length)};
  return {};
}

// All bytes as "<0x..>" tokens, or none of them.
bool BpeModel::byte_tokens(std::string_view bytes, Scratch& scratch) const {
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(bytes.begin(), bytes.end(), [&](char b) { return id_of(b) == kNone; }))
    return false;
  for (const char byte : bytes) add_symbol(scratch, id_of(byte), 1);
  return true;
}

// Merges the pair of lowest rank first, the leftmost of equals, until none is left. An entry of the
// queue is stale once its pair no longer makes the token it was queued for.
template <typename Queue>
void BpeModel::merge_all(std::vector<Scratch::Symbol>& symbols, Queue& queue) const {
  const auto push = [&](int32_t left, int32_t right) {
    const Merge* merge =
        find_merge(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (merge != nullptr) queue.push({merge->rank, static_cast<uint32_t>(left)});
  };
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    push(static_cast<int32_t>(i), static_cast<int32_t>(i + 1));
  }
  for (QueuedMerge top{}; queue.pop(top);) {
    const auto at = static_cast<int32_t>(top.position);
    Scratch::Symbol& left = symbols[top.position];
    if (left.length == 0 || left.next == kNone) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->id != merged_by_rank_[top.rank]) continue;
    left.id = merge->id;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != kNone) symbols[static_cast<size_t>(left.next)].previous = at;
    if (left.previous != kNone) push(left.previous, at);
    if (left.next != kNone) push(at, left.next);
  }
}

}  // namespace fathom
