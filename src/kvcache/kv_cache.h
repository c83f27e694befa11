// KvCache: which pages hold the entries of which sequence. It counts bytes, never their meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "kvcache/page_pool.h"
#include "kvcache/prefix_index.h"
#include "types/kv_layout.h"
#include "types/step_plan.h"

namespace fathom {

// The page tables of all sequences that keep state. Page i is page i of every group's memory: all
// groups grow by one entry a token, so one list serves them all, in logical order (page k of a
// sequence holds the positions k * page_size() to (k + 1) * page_size() - 1). Owns no memory; the
// engine allocates page_count() pages for each group. Used by one thread (the engine's).
//
// Sequences of one scope that begin with the same tokens share full pages, which are reference
// counted. A page becomes findable when it is full and computed (publish()), prompt or answer, and
// stays so without owners until its memory is needed: such cached pages count as free. The page
// that was used longest ago goes first, but none before those that continue it; an owner of a page
// owns all pages before it, so what can go always suffices.
class KvCache {
 public:
  using Handle = int32_t;  // names a sequence from open() to close(); reused afterwards

  // Refuses layouts with groups that do not grow by one entry a token, by name, and page sizes
  // other than 8, 16, 32, 64 and 128.
  static Result<KvCache> create(const KvLayout& layout, int32_t page_size, int64_t page_count,
                                PrefixIndex::Hash hash = PrefixIndex::default_hash);
  static bool is_page_size(int64_t page_size);
  // Bytes of one page, all groups together.
  static uint64_t page_bytes(const KvLayout& layout, int32_t page_size);

  // A sequence without pages. `scope`: it shares with others of this scope; absent: with none.
  Handle open(std::optional<std::string> scope = std::nullopt);
  void close(Handle handle);  // gives its pages back; those that were published stay findable

  struct Prefix {
    int32_t pages = 0;    // full pages that are findable
    int32_t unowned = 0;  // of these, counted in free_pages() until they are adopted
  };
  // The longest findable beginning of `tokens` that has at most `limit` tokens.
  Prefix find_prefix(const std::string& scope, const std::vector<int32_t>& tokens,
                     int64_t limit) const;
  // Starts an empty sequence with these pages; gives the number of positions they hold.
  int64_t adopt_prefix(Handle handle, const std::vector<int32_t>& tokens, int64_t limit);
  // The first `computed` positions, of `tokens`, are in the sequence's pages: makes the full ones
  // findable. A page that another sequence has published meanwhile replaces the sequence's own,
  // which holds the same bits.
  void publish(Handle handle, const std::vector<int32_t>& tokens, int64_t computed);
  void drop_cached();  // pages without owners are no longer findable

  // Makes room for the positions [0, tokens): all of it or nothing (false).
  bool reserve(Handle handle, int64_t tokens);
  int64_t pages_missing(Handle handle, int64_t tokens) const;  // what reserve() would take
  int64_t pages_for(int64_t tokens) const;                     // pages that hold so many tokens
  const std::vector<int32_t>& pages(Handle handle) const { return sequences_[handle].pages; }
  // Adds the pages of a sequence to the tables of a step, one table per group.
  void append_to(Handle handle, std::vector<PageTable>* tables) const;

  int32_t page_size() const { return page_size_; }
  int32_t page_count() const { return pool_.size(); }
  int32_t free_pages() const { return pool_.free_count() + unowned_; }  // that reserve() can take
  int32_t cached_pages() const { return unowned_; }                     // of these, findable
  int32_t owned_pages() const { return page_count() - free_pages(); }
  uint64_t evictions() const { return evictions_; }
  int32_t groups() const { return groups_; }

  // No leak, no double owner, references equal to owners, and a prefix index that agrees with the
  // page lists. For tests: linear in pages.
  Status check_integrity() const;

 private:
  struct Sequence {
    bool live = false;
    std::optional<std::string> scope;
    std::vector<int32_t> pages;
    int64_t published = 0;  // of the pages, from the first
  };
  KvCache(int32_t groups, int32_t page_size, int32_t page_count, PrefixIndex::Hash hash);
  void acquire(int32_t page);
  void release(int32_t page);
  void evict();
  Status check_owners(std::vector<int32_t>* owners) const;
  Status check_sequence(Handle handle) const;
  Status check_cached() const;

  int32_t groups_;
  int32_t page_size_;
  PagePool pool_;
  PrefixIndex index_;
  int32_t unowned_ = 0;                            // findable pages without references
  std::vector<uint64_t> last_use_;                 // [pages] when they lost their last owner
  uint64_t clock_ = 0;                             // counts releases
  std::set<std::pair<uint64_t, int32_t>> leaves_;  // unowned pages that none continues, by last use
  uint64_t evictions_ = 0;
  std::vector<Sequence> sequences_;  // [handles]
  std::vector<Handle> unused_;       // handles that are not live
};

}  // namespace fathom
