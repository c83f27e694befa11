// PagePool: which KV pages are free and how many owners the others have.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"

namespace fathom {

// Pages are numbers in [0, size()). A page has as many references as lists that hold it and returns
// to the free list with the last of them. Which page comes next depends only on the order of calls.
// Used by one thread (the engine's).
class PagePool {
 public:
  explicit PagePool(int32_t pages);

  int32_t size() const { return static_cast<int32_t>(references_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  int32_t references(int32_t page) const { return references_[page]; }

  int32_t allocate();                // a page with one reference; free_count() must not be 0
  void add_reference(int32_t page);  // of a page that is in use
  void release(int32_t page);        // drops one reference of a page that is in use

  // `owners[page]` counts the lists that hold each page: references must equal it, and exactly the
  // pages without an owner must be free. The error is a defect of fathom.
  Status check(const std::vector<int32_t>& owners) const;

 private:
  std::vector<int32_t> references_;  // [pages]
  std::vector<int32_t> free_;        // a stack; the lowest pages are on top at first
};

}  // namespace fathom
