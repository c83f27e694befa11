// KvCache: which pages hold the entries of which sequence. It counts bytes, never their meaning.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "kvcache/page_pool.h"
#include "types/kv_layout.h"
#include "types/step_plan.h"

namespace fathom {

// The page tables of all sequences that keep state. Page i is page i of every group's memory: all
// groups grow by one entry a token, so one list serves them all, in logical order (page k of a
// sequence holds the positions k * page_size() to (k + 1) * page_size() - 1). Pages are reference
// counted: sequences with the same beginning may share full pages. Owns no memory; the engine
// allocates page_count() pages for each group. Used by one thread (the engine's).
class KvCache {
 public:
  using Handle = int32_t;  // names a sequence from open() to close(); reused afterwards

  // Refuses layouts with groups that do not grow by one entry a token, by name, and page sizes
  // other than 8, 16, 32, 64 and 128.
  static Result<KvCache> create(const KvLayout& layout, int32_t page_size, int64_t page_count);
  static bool is_page_size(int64_t page_size);
  // Bytes of one page, all groups together.
  static uint64_t page_bytes(const KvLayout& layout, int32_t page_size);

  Handle open();
  // A sequence that begins with the first `pages` pages of `parent` (all of which must be full).
  Handle open_shared(Handle parent, int32_t pages);
  void close(Handle handle);  // gives its pages back

  // Makes room for the positions [0, tokens): all of it or nothing (false).
  bool reserve(Handle handle, int64_t tokens);
  int64_t pages_missing(Handle handle, int64_t tokens) const;  // what reserve() would take
  int64_t pages_for(int64_t tokens) const;                     // pages that hold so many tokens
  const std::vector<int32_t>& pages(Handle handle) const { return sequences_[handle].pages; }
  // Adds the pages of a sequence to the tables of a step, one table per group.
  void append_to(Handle handle, std::vector<PageTable>* tables) const;

  int32_t page_size() const { return page_size_; }
  int32_t page_count() const { return pool_.size(); }
  int32_t free_pages() const { return pool_.free_count(); }
  int32_t groups() const { return groups_; }

  // No leak, no double owner, references equal to owners. For tests: linear in pages.
  Status check_integrity() const;

 private:
  struct Sequence {
    bool live = false;
    std::vector<int32_t> pages;
  };
  KvCache(int32_t groups, int32_t page_size, int32_t page_count);

  int32_t groups_;
  int32_t page_size_;
  PagePool pool_;
  std::vector<Sequence> sequences_;  // [handles]
  std::vector<Handle> unused_;       // handles that are not live
};

}  // namespace fathom
