// Vocabulary and BpeModel: the base tokens, and the merges that build words out of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "text/merge_queue.h"
#include "text/tokenizer_json.h"

namespace fathom {

// Tokens by id and ids by token. Ids may have holes. Immutable after build.
class Vocabulary {
 public:
  // Refuses duplicates, and ids far beyond the number of tokens (a table is indexed by id).
  static Result<Vocabulary> build(const std::vector<std::pair<std::string, uint64_t>>& tokens);

  std::optional<int32_t> find(std::string_view token) const;
  std::string_view text(int32_t id) const;  // "" for holes and unknown ids
  bool has(int32_t id) const { return id >= 0 && id < size() && spans_[id].begin != kHole; }
  int32_t size() const { return static_cast<int32_t>(spans_.size()); }  // ids are below
  size_t count() const { return count_; }

 private:
  static constexpr uint32_t kHole = UINT32_MAX;
  struct Span {
    uint32_t begin = kHole;
    uint32_t length = 0;
  };
  std::string arena_;
  std::vector<Span> spans_;     // [id]
  std::vector<int32_t> slots_;  // open addressing, -1 = free
  size_t count_ = 0;
};

// Byte-pair encoding as the `tokenizers` library does it. Immutable but for a cache of words, which
// has a fixed size and locks of its own: many threads may encode at once.
class BpeModel {
 public:
  // Memory of one encoding thread, reused between words.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous;
      int32_t next;
      uint32_t length;  // 0: merged into an earlier one
    };
    std::vector<Symbol> symbols;
    HeapMergeQueue short_queue;
    RankedMergeQueue long_queue;
    std::string letters;
  };

  // `file.rest["model"]` has the options. With `raw_bytes`, words come as bytes and each byte is
  // looked up as its letter of the byte alphabet; else they are valid UTF-8 and looked up as it is.
  static Result<BpeModel> build(const TokenizerJson& file, bool raw_bytes);

  // Appends the ids of one word.
  Status encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    int32_t id = 0;
  };
  struct CachedWord;
  struct Cache;
  struct CacheDeleter {
    void operator()(Cache* cache) const;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;

  Status read_options(const nlohmann::json& model);
  Status add_merges(const std::vector<std::pair<std::string, std::string>>& merges);
  void insert_merge(uint64_t pair, uint32_t rank, int32_t id);
  const Merge* find_merge(int32_t left, int32_t right) const;
  Status split_bytes(std::string_view word, Scratch& scratch) const;
  Status split_characters(std::string_view word, Scratch& scratch) const;
  Status unknown(size_t length, Scratch& scratch, std::pair<int32_t, uint32_t>& pending) const;
  bool byte_tokens(std::string_view bytes, Scratch& scratch) const;
  template <typename Queue>
  void merge_all(std::vector<Scratch::Symbol>& symbols, Queue& queue) const;

  Vocabulary vocabulary_;
  std::vector<Merge> merges_;            // open addressing
  std::vector<int32_t> merged_by_rank_;  // [rank] id of the merged token
  std::array<int32_t, 256> byte_ids_{};  // raw bytes: id of the byte's letter, -1 if there is none
  std::array<int32_t, 256> fallback_ids_{};  // of "<0x..>", -1 if there is none
  bool raw_bytes_ = false;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  std::optional<std::string> unk_token_;
  std::string continuing_prefix_;
  std::string end_suffix_;
  std::unique_ptr<Cache, CacheDeleter> cache_;
};

}  // namespace fathom
